// The page's side of a runtime: a worker that is started, loaded, asked, and ended when it hangs.

import { fetchChecked } from "./fetch.js";
import { typed } from "./tensor.js";

export class Runtime {
  #worker = null;
  #waiting = new Map();
  #last = 0;

  /**
   * @param provider "wasm" or "webgpu"
   * @param files entry, loader and WebAssembly of the build, as data.json lists them
   * @param base the folder they are in, ending in a slash
   */
  constructor(provider, files, base, threads) {
    Object.assign(this, { provider, files, base, threads, version: "" });
  }

  /** Fetch and check the build's files; what was fetched is kept. */
  async fetch(heard) {
    if (this.binary) return;
    const [entry, loader, wasm] = this.files;
    await fetchChecked(entry, this.base, heard);
    await fetchChecked(loader, this.base, heard);
    this.binary = await fetchChecked(wasm, this.base, heard);
  }

  /** Start a worker, and load the model in it; the answer says how that went, and when verbose where nodes run. */
  async load(model, external, seconds, verbose = false) {
    this.stop();
    const [entry, loader, wasm] = this.files.map((f) => new URL(f.path, this.base).href);
    this.#worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.#worker.onmessage = ({ data }) => this.#waiting.get(data.id)?.(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      for (const tell of this.#waiting.values()) tell({ answer: "crash", error: event.message || "the worker ended" });
    };
    const started = await this.#ask({ act: "start", entry, loader, wasm, binary: this.binary, threads: this.threads }, seconds);
    if (started.answer !== "started") return started;
    this.version = started.version;
    return this.#ask({ act: "load", provider: this.provider, model, external, verbose }, seconds);
  }

  /** Run the model once, and some times more for the latency. */
  run(inputs, seconds, again = { most: 0, milliseconds: 0 }) {
    const tensors = inputs.map((t) => ({ dtype: t.dtype, shape: t.shape, data: typed(t) }));
    return this.#ask({ act: "run", inputs: tensors, again }, seconds);
  }

  /** How many nodes each provider takes: a worker of its own says so, for one that is verbose is slow ever after. */
  async placement(model, external, seconds) {
    const scout = new Runtime(this.provider, this.files, this.base, this.threads);
    scout.binary = this.binary;
    const { placement } = await scout.load(model, external, seconds, true);
    scout.stop();
    return placement ?? null;
  }

  get running() {
    return this.#worker !== null;
  }

  stop() {
    this.#worker?.terminate();
    this.#worker = null;
  }

  async #ask(message, seconds) {
    const id = ++this.#last;
    let timer;
    const answer = await new Promise((tell) => {
      this.#waiting.set(id, tell);
      timer = setTimeout(() => tell({ answer: "timeout", error: `no answer within ${seconds} s` }), Math.min(seconds * 1000, 2 ** 31 - 1));
      this.#worker.postMessage({ id, ...message });
    });
    clearTimeout(timer);
    this.#waiting.delete(id);
    if (answer.answer === "timeout" || answer.answer === "crash") this.stop();
    return answer;
  }
}

/** The WebGPU adapter: {adapter} with its names, or {reason} why there is none. Some browsers never answer. */
export async function findAdapter(milliseconds = 5000) {
  if (!navigator.gpu) return { reason: "this browser has no WebGPU" };
  const late = new Promise((tell) => setTimeout(() => tell("late"), milliseconds));
  let found;
  try {
    found = await Promise.race([navigator.gpu.requestAdapter(), late]);
  } catch (err) {
    return { reason: `WebGPU fails: ${err.message}` };
  }
  if (found === "late") return { reason: "WebGPU gives no answer" };
  if (!found) return { reason: "this browser gives no WebGPU adapter" };
  const info = found.info ?? {};
  const text = (name) => String(info[name] ?? "").slice(0, 200);
  const names = { vendor: text("vendor"), architecture: text("architecture"), device: text("device"), description: text("description") };
  const software = Boolean(info.isFallbackAdapter ?? found.isFallbackAdapter) || /swiftshader|llvmpipe|lavapipe/i.test(Object.values(names).join(" "));
  return { adapter: { ...names, software } };
}
