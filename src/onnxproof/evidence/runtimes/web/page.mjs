// ONNX Runtime Web in a page: messages come from the server that the page came from, and answers go back to it.
import { Session, takeConsole } from "./core.mjs";
import { pack, unpack } from "./wire.mjs";

takeConsole();
const session = new Session(() => import(`./ort/${document.documentElement.dataset.build}`), { tells: true });

/** Fetch a message, answer it. Called by whoever drives the browser. */
window.answer = async () => {
  const message = await (await fetch("message")).arrayBuffer();
  const { header, blobs } = await session.answer(unpack(new Uint8Array(message)));
  const done = await fetch("answer", { method: "POST", body: pack(header, blobs) });
  return done.ok;
};
document.title = "ready";
