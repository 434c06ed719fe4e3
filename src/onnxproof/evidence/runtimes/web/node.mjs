// ONNX Runtime Web in Node: messages on standard input and output, each after its length (float64, little endian).
import { pathToFileURL } from "node:url";
import { Session } from "./core.mjs";
import { pack, unpack } from "./wire.mjs";

const [module] = process.argv.slice(2);
const session = new Session(() => import(pathToFileURL(module)), { tells: false });

let pending = [];
let held = 0;

/** The next `size` bytes of standard input as a Uint8Array (a Buffer's slices are views), or null at its end. */
async function read(source, size) {
  while (held < size) {
    const { value, done } = await source.next();
    if (done) return null;
    pending.push(value);
    held += value.length;
  }
  const all = pending.length === 1 ? pending[0] : Buffer.concat(pending);
  pending = [all.subarray(size)];
  held = all.length - size;
  return new Uint8Array(all.buffer, all.byteOffset, size);
}

function write(bytes) {
  return new Promise((resolve) => process.stdout.write(bytes, resolve));
}

const source = process.stdin[Symbol.asyncIterator]();
for (;;) {
  const length = await read(source, 8);
  if (!length) break;
  const message = await read(source, new DataView(length.buffer, length.byteOffset).getFloat64(0, true));
  const { header, blobs } = await session.answer(unpack(message));
  const bytes = pack(header, blobs);
  const size = Buffer.alloc(8);
  size.writeDoubleLE(bytes.length);
  await write(size);
  await write(bytes);
}
process.exit(0);
