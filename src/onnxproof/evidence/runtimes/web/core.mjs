// One session of ONNX Runtime Web, in Node or in a page: loads a model, runs it, and tells what it found.

// The arrays that hold each type of tensor; 16-bit floats are made of their words.
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
};
const ADAPTER_SECONDS = 30; // a browser without a working driver may never answer
const PLACED = /placed on \[(\w+)\]\. Number of nodes: (\d+)/;

let log = null; // what the runtime tells while the placement of a model is asked for

/** Take what goes to the console. Emscripten binds its functions when its module starts: call this before. */
export function takeConsole() {
  for (const name of ["log", "info", "debug", "warn", "error"]) {
    console[name] = (...values) => log?.push(values.join(" "));
  }
}

/**
 * Answers messages, one after the other.
 *
 * `importOrt` gives the module of ONNX Runtime Web; `tells` says whether its log goes to the console, where it tells
 * which provider took which nodes. In Node it does not.
 */
export class Session {
  constructor(importOrt, { tells }) {
    this.importOrt = importOrt;
    this.tells = tells;
  }

  /** A header and blobs in, a header and blobs out; errors are answers, with `kind`. */
  async answer({ header, blobs }) {
    try {
      return header.do === "load" ? await this.load(header, blobs) : await this.run(header, blobs);
    } catch (error) {
      return { header: { error: textOf(error), kind: kindOf(error) }, blobs: [] };
    }
  }

  async load(header, [model, ...external]) {
    const { provider, threads, options } = header;
    const adapter = provider === "webgpu" ? await adapterFacts() : null;
    const ort = (this.ort = await this.importOrt());
    ort.env.wasm.numThreads = threads;
    ort.env.wasm.proxy = false;
    ort.env.logLevel = "error";
    const earlier = this.session;
    this.session = null;
    await earlier?.release();
    const given = {
      ...options,
      executionProviders: [provider],
      externalData: external.map((data, i) => ({ path: header.external[i], data })),
    };
    const placement = this.tells ? await placementOf(ort, model, given) : null;
    this.session = await ort.InferenceSession.create(model, { ...given, logSeverityLevel: 3 });
    const isolated = globalThis.crossOriginIsolated ?? null;
    const facts = { adapter, placement, threads: ort.env.wasm.numThreads, isolated };
    return { header: { ...facts, version: ort.env.versions.web ?? ort.env.versions.common }, blobs: [] };
  }

  async run(header, blobs) {
    const { inputNames, outputNames } = this.session;
    const feeds = {};
    header.tensors.forEach(({ type, dims }, i) => {
      feeds[inputNames[i]] = new this.ort.Tensor(type, new ARRAYS[type](blobs[i].buffer), dims);
    });
    let results;
    const seconds = []; // of each of as many runs as are asked for
    for (let left = header.runs ?? 1; left > 0; left--) {
      const start = performance.now();
      results = await this.session.run(feeds, { logSeverityLevel: 4 });
      seconds.push((performance.now() - start) / 1000);
    }
    const tensors = [];
    const values = [];
    for (const name of outputNames) {
      const { type, dims, data } = results[name];
      tensors.push({ name, type, dims: [...dims] });
      values.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    }
    return { header: { tensors, seconds }, blobs: values };
  }
}

class Refusal extends Error {}

/** Vendor, architecture and kind of the adapter that WebGPU has here. */
async function adapterFacts() {
  if (!globalThis.navigator?.gpu) throw new Refusal("there is no WebGPU here");
  const late = new Promise((_, reject) => {
    const said = `requestAdapter() gave no answer in ${ADAPTER_SECONDS} seconds`;
    setTimeout(() => reject(new Refusal(said)), 1000 * ADAPTER_SECONDS);
  });
  const adapter = await Promise.race([navigator.gpu.requestAdapter(), late]);
  if (!adapter) throw new Refusal("WebGPU has no adapter here: requestAdapter() gave null");
  const { vendor, architecture, device, description } = adapter.info;
  const software = adapter.info.isFallbackAdapter ?? adapter.isFallbackAdapter ?? false;
  return { vendor, architecture, device, description, software };
}

/**
 * Nodes by provider, of all graphs of a model, from the verbose log of a session that is made for it alone: one that
 * writes such a log goes on writing while it runs, and is slower for it.
 */
async function placementOf(ort, model, given) {
  log = [];
  try {
    const scout = await ort.InferenceSession.create(model, { ...given, logSeverityLevel: 0, logVerbosityLevel: 1 });
    await scout.release();
    const nodes = {};
    for (const line of log) {
      const found = PLACED.exec(line);
      if (found) nodes[found[1]] = (nodes[found[1]] ?? 0) + Number(found[2]);
    }
    return nodes;
  } finally {
    log = null;
  }
}

function textOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/** "refused": an argument or a model is not taken; "fatal": nothing runs any more; "error": anything else. */
function kindOf(error) {
  if (error instanceof Refusal || /ERROR_CODE: 2\b/.test(textOf(error))) return "refused";
  if (error instanceof WebAssembly.RuntimeError || error instanceof WebAssembly.Exception) return "fatal";
  return typeof error === "number" ? "fatal" : "error";
}
