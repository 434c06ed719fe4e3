// The page: what data.json says, the buttons, and what comes of a run.

import { bars, errorPlot, latencyPlot, NAMES } from "./charts.js";
import { at, bytes, error, make, save, seconds } from "./dom.js";
import { Refused } from "./fetch.js";
import { Own } from "./own.js";
import { LONG_NAMES, Proof } from "./proof.js";
import { deviceRecord, textOf } from "./record.js";
import { findAdapter } from "./runtime.js";
import { show } from "./tensor.js";

const base = new URL("..", import.meta.url);
const SIGNS = { passed: "M7.5 12.4l3 3 6-6.4", failed: "M8.5 8.5l7 7M15.5 8.5l-7 7" };
const redraw = new Set();
let proof = null;
let own = null;

function verdict(state, title, because) {
  at("proof").className = `verdict ${state}`;
  at("sign").setAttribute("d", SIGNS[state] ?? (state === "idle" ? "M10.2 8.3l5.6 3.7-5.6 3.7z" : ""));
  at("verdict").textContent = title;
  at("because").textContent = because;
}

function plot(draw) {
  redraw.add(draw);
  draw();
}

const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

function showModel(data) {
  const model = data.files.find((f) => f.role === "model");
  const size = data.files.filter((f) => f.role === "model" || f.role === "external-data").reduce((n, f) => n + f.bytes, 0);
  const nodes = data.operators.reduce((n, [, c]) => n + c, 0);
  document.title = `${data.title} · onnxproof`;
  at("title").textContent = data.title;
  at("about").textContent = `Does this ONNX file give ${data.record.reference}? Your own browser finds out.`;
  const opsets = Object.entries(data.opset).map(([domain, v]) => (domain === "ai.onnx" ? `opset ${v}` : `${domain} ${v}`));
  at("facts").replaceChildren(...[bytes(size), plural(nodes, "node"), ...opsets, data.dtype, data.producer && `by ${data.producer}`].filter(Boolean).map((f) => make("li", {}, f)));
  const row = (kind) => (port) => make("tr", {}, make("th", { scope: "row" }, port.name, make("small", {}, kind)), make("td", { class: "mono" }, show(port)));
  at("signature").tBodies[0].replaceChildren(...data.inputs.map(row("input")), ...data.outputs.map(row("output")));
  at("promises").hidden = !data.promises.length;
  const badges = { passed: ["good", "kept"], failed: ["bad", "broken"], not_run: ["", "not tried"] };
  const promise = ({ demand, status: [style, word] }) => make("li", {}, make("span", { class: `badge ${style}` }, word), demand);
  at("promises").lastElementChild.replaceChildren(...data.promises.map((p) => promise({ ...p, status: badges[p.status] })));
  plot(() => bars(at("operators"), data.operators.map(([name, n]) => [name, n, String(n)]), "How often each operator is in the graph"));
  const [rtol, atol] = [data.tolerances.rtol, data.tolerances.atol].map((n) => (n && n < 0.001 ? n.toExponential() : String(n)));
  at("reference").textContent = data.record.reference;
  at("tolerance").textContent = `${atol} + ${rtol} · |expected|`;
  const list = [["Record", data.record.digest], ["Model", model.sha256]];
  at("digests").replaceChildren(...list.flatMap(([name, hash]) => [make("dt", {}, name), make("dd", { class: "mono" }, hash)]));
  at("command").textContent = `onnxproof verify BUNDLE --device-record ${recordName(data)}`;
  at("made").textContent = `Made by onnxproof ${data.onnxproof}. Runs on ONNX Runtime Web ${data.runtime.version} (MIT licence). No server code, no cookies, no requests to anyone else.`;
}

const recordName = (data) => `${data.title.replace(/[^\w.-]+/g, "_")}.device.json`;

function showCases(data, providers) {
  const good = data.cases.filter((c) => c.expect === "match").length;
  const bad = data.cases.length - good;
  at("cases-about").textContent = `${plural(good, "case")} with expected outputs${bad ? `, and ${plural(bad, "input")} that the model has to refuse` : ""}.`;
  const columns = providers.map((p) => make("th", { scope: "col" }, NAMES[p]));
  at("table").tHead.replaceChildren(make("tr", {}, make("th", { scope: "col" }, "Case"), ...columns));
  at("table").tBodies[0].replaceChildren(
    ...data.cases.map((c) =>
      make(
        "tr",
        { "data-case": c.name },
        make("th", { scope: "row" }, c.name, make("small", {}, c.takes.join(", "))),
        ...providers.map((p) => make("td", { "data-provider": p, class: "soft" }, "not run yet")),
      ),
    ),
  );
}

const WORDS = { match: "pass", rejected: "refused", mismatch: "differs", accepted: "not refused", not_run: "not run" };

function showCase(run, found) {
  const cell = document.querySelector(`tr[data-case="${CSS.escape(found.name)}"] td[data-provider="${run.provider}"]`);
  const style = found.failure ? "bad" : found.limit ? "warn" : found.outcome === "not_run" ? "" : "good";
  const word = found.limit ? "known limit" : (WORDS[found.outcome] ?? found.outcome);
  const most = Math.max(...found.comparisons.map((c) => c.maxAbs ?? Infinity));
  const figures = found.comparisons.length ? [`error ${error(most)}`, seconds(found.warm_seconds ?? found.seconds)] : [];
  cell.dataset.outcome = found.outcome;
  cell.replaceChildren(make("span", { class: `badge ${style}` }, word));
  if (figures.length) cell.append(make("small", {}, figures.filter(Boolean).join(" · ")));
  if (found.why) cell.append(make("small", { class: found.failure ? "why" : null }, found.why.slice(0, 600)));
}

function conclude(runs) {
  const failed = runs.find((r) => r.status === "failed");
  const said = runs.map((run) => {
    const passed = run.cases.filter((c) => !c.failure && c.outcome !== "not_run").length;
    const where = run.adapter ? (run.adapter.software ? "software adapter" : run.adapter.description || run.adapter.vendor || "its adapter") : plural(run.threads, "thread");
    return `${passed} of ${run.cases.length} on ${LONG_NAMES[run.provider]} (${where})`;
  });
  if (!failed) {
    verdict("passed", "Every case passes on this device", `${said.join(", ")}.`);
    return;
  }
  const bad = failed.cases.find((c) => c.failure);
  const what = bad ? `${LONG_NAMES[failed.provider]}, case ${bad.name}: ${bad.why}` : `${LONG_NAMES[failed.provider]} does not load the model: ${failed.error}`;
  const fine = runs.filter((r) => r.status === "passed").map((r) => LONG_NAMES[r.provider]);
  const title = fine.length ? `It passes on ${fine.join(" and ")}, and fails on ${LONG_NAMES[failed.provider]}` : "It fails on this device";
  verdict("failed", title, what.slice(0, 700));
}

function showPlots(data, runs) {
  const names = data.cases.map((c) => c.name);
  const drawn = runs.filter((r) => r.cases.some((c) => c.comparisons.length));
  at("plots").hidden = !drawn.length;
  for (const draw of [...redraw].filter((d) => d.ofRun)) redraw.delete(draw);
  if (!drawn.length) return;
  const both = () => {
    errorPlot(at("errors"), names, drawn);
    latencyPlot(at("latency"), names, drawn);
  };
  both.ofRun = true;
  plot(both);
}

const chosen = () => ["wasm", "webgpu"].filter((p) => at(`use-${p}`).checked);

function showNote() {
  const providers = chosen();
  const size = proof.missing(providers);
  at("run").disabled = !providers.length;
  const fetches = !providers.length ? "Choose where to run." : size ? `Fetches ${bytes(size)}, from this host only.` : "Everything is here: it runs without a network.";
  at("note").textContent = [fetches, at("note").dataset.webgpu].filter(Boolean).join(" ");
}

let focused = null; // a button that is disabled loses the focus, and gets it back

function busy(on) {
  at("progress").hidden = !on;
  at("note").hidden = on;
  if (on) focused = document.activeElement;
  for (const control of at("controls").elements) control.disabled = on || (control.id === "use-webgpu" && !proof.adapter);
  at("own-run").disabled = on || !own;
  if (!on && document.activeElement === document.body) focused?.focus({ preventScroll: true });
}

function heard({ doing, part, came, whole, run, found }) {
  if (found) return showCase(run, found);
  at("doing").textContent = doing;
  at("bar").value = part;
  at("amount").textContent = whole ? `${bytes(came)} of ${bytes(whole)}` : "";
}

async function prove() {
  const providers = chosen();
  if (!providers.length) return;
  busy(true);
  at("save").hidden = true;
  showCases(proof.data, providers);
  verdict("running", "Running on this device", "Every file is held against its hash before anything is loaded.");
  try {
    const runs = await proof.run(providers, Number(at("threads").value || 1), heard);
    conclude(runs);
    showPlots(proof.data, runs);
    at("save").hidden = false;
    at("run").textContent = "Run it again";
    at("run").classList.remove("main");
    at("save").classList.add("main");
    offerOwn(runs.filter((r) => r.load === "loaded").map((r) => r.provider));
  } catch (err) {
    if (err instanceof Refused) verdict("failed", "Refused before anything was loaded", err.message);
    else verdict("failed", "It could not be run", `${err.message}.`);
  }
  busy(false);
  showNote();
}

function offerOwn(providers) {
  if (!providers.length) return;
  own ??= new Own(proof);
  at("own").hidden = false;
  at("own-hint").hidden = true;
  at("own-where").replaceChildren(...providers.map((p) => make("option", { ".value": p }, LONG_NAMES[p])));
}

async function runOwn() {
  const said = at("own-said");
  const say = (text, bad) => {
    said.className = bad ? "bad" : "soft";
    said.textContent = text;
  };
  busy(true);
  at("progress").hidden = true;
  say("Running …");
  try {
    say(await own.run(at("own-where").value));
  } catch (err) {
    at("own-outputs").replaceChildren();
    say(err.message, true);
  }
  busy(false);
}

async function offerProviders(data) {
  const found = data.runtime.builds.webgpu ? await findAdapter() : { reason: "this page has no build for it" };
  proof.adapter = found.adapter ?? null;
  const box = at("use-webgpu");
  box.disabled = !found.adapter;
  box.checked = Boolean(found.adapter);
  const software = found.adapter?.software ? "WebGPU has a software adapter here: right for values, and slow." : "";
  at("note").dataset.webgpu = found.adapter ? software : `No WebGPU: ${found.reason}.`;
  if (globalThis.crossOriginIsolated) {
    const most = Math.min(navigator.hardwareConcurrency || 1, 16);
    at("threads").replaceChildren(...Array.from({ length: most }, (_, i) => make("option", {}, String(i + 1))));
    at("threads-label").hidden = most < 2;
  }
}

async function start() {
  if (!globalThis.isSecureContext || !crypto.subtle) {
    throw new Error("The browser gives hashes (Web Crypto) only to pages from HTTPS or from this machine: without them nothing is loaded");
  }
  const answer = await fetch(new URL("data.json", base), { cache: "no-cache" });
  if (!answer.ok) throw new Error(`data.json did not come: the host answers ${answer.status}`);
  const data = await answer.json();
  proof = new Proof(data, base, null);
  showModel(data);
  await offerProviders(data);
  showCases(data, chosen());
  const { status, failure, level, runtimes } = data.record;
  const made = failure ? `it ${status} (${failure})` : `it ${status}`;
  verdict("idle", "Not run on this device yet", `Where it was made, ${made}, level ${level}: ${runtimes.join(", ")}.`);
  at("controls").hidden = false;
  showNote();
  at("controls").onchange = () => {
    if (!proof.runs.length) showCases(data, chosen());
    showNote();
  };
  at("controls").onsubmit = (event) => {
    event.preventDefault();
    prove();
  };
  at("save").onclick = async () => save(recordName(data), textOf(await deviceRecord(data, proof.runs)), "application/json");
  at("own").onsubmit = (event) => {
    event.preventDefault();
    runOwn();
  };
  let waiting = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => redraw.forEach((draw) => draw()));
  }).observe(document.querySelector("main"));
}

start().catch((err) => verdict("failed", "The page can't start", `${err.message}.`));

/** Have the page kept for when there is no network. What came before the service worker did is fetched once more. */
async function keep() {
  await navigator.serviceWorker.register(new URL("offline.js", base));
  if (navigator.serviceWorker.controller) return;
  const { active } = await navigator.serviceWorker.ready;
  const came = performance.getEntriesByType("resource").map((entry) => entry.name);
  active.postMessage([base.href, ...came.filter((url) => url.startsWith(base.href))]);
}

if (navigator.serviceWorker) keep().catch(() => {}); // a convenience, which some browsers forbid
