// Files first, each held against its hash; then every case on every provider. Facts come out, and what they mean.

import { compare } from "./compare.js";
import { element, error as magnitude } from "./dom.js";
import { fetchAll, Refused } from "./fetch.js";
import { settle, settleRun } from "./record.js";
import { Runtime } from "./runtime.js";
import { fromProto, show } from "./tensor.js";

const AGAIN = { most: 9, milliseconds: 400 }; // warm runs of a case
export const LONG_NAMES = { wasm: "WebAssembly", webgpu: "WebGPU" };
const RUNTIMES = { wasm: "ort-web-browser-wasm", webgpu: "ort-web-browser-webgpu" };

export class Proof {
  files = null; // path → bytes, once all of them are as recorded
  cases = []; // with tensors, once the files are there
  runs = [];
  runtimes = new Map();

  constructor(data, base, adapter) {
    Object.assign(this, { data, base, adapter });
  }

  /** Bytes that a run on these providers still has to fetch. */
  missing(providers) {
    const bundle = this.files ? 0 : sum(this.data.files);
    return providers.reduce((n, p) => n + (this.runtimes.get(p)?.binary ? 0 : sum(this.data.runtime.builds[p])), bundle);
  }

  /**
   * Run everything. `tell` hears {doing, part, came, whole} as it goes on, and {run, found} for each case.
   * Throws Refused when a file is not as recorded; nothing was loaded then.
   */
  async run(providers, threads, tell) {
    for (const runtime of this.runtimes.values()) runtime.stop();
    this.runs = [];
    const whole = this.missing(providers);
    let came = 0;
    const fetching = (doing) => (n) => tell({ doing, came: (came += n), whole, part: whole ? came / whole : 1 });
    if (!this.files) await this.#fetchBundle(fetching("Fetching the model and its cases"));
    for (const provider of providers) await this.#runtime(provider, threads).fetch(fetching(`Fetching ONNX Runtime Web for ${LONG_NAMES[provider]}`));
    for (const [i, provider] of providers.entries()) {
      const run = await this.#runOn(provider, (doing, part) => tell({ doing, part: (i + part) / providers.length }), tell);
      this.runs.push(run);
    }
    return this.runs;
  }

  /** The runtime of a provider with the model in it, loaded anew where it was stopped. */
  async ready(provider) {
    const runtime = this.runtimes.get(provider);
    if (!runtime.running) await this.#load(runtime);
    return runtime;
  }

  async #fetchBundle(heard) {
    const files = await fetchAll(this.data.files, new URL("bundle/", this.base), heard);
    const record = JSON.parse(new TextDecoder().decode(files.get("record.json")));
    const listed = (list) => list.filter((f) => f.role !== "record").map((f) => `${f.path} ${f.sha256}`).join("\n");
    if (record.digest !== this.data.record.digest || listed(record.artifacts.files) !== listed(this.data.files)) {
      throw new Refused("The page's own list of files is not that of the record.");
    }
    const tensor = (path) => fromProto(files.get(path));
    this.cases = this.data.cases.map((c) => ({ ...c, inputs: c.inputs.map(tensor), outputs: c.outputs.map(tensor) }));
    this.files = files;
  }

  #runtime(provider, threads) {
    const known = this.runtimes.get(provider);
    const files = this.data.runtime.builds[provider];
    const runtime = known ?? new Runtime(provider, files, new URL("ort/", this.base), threads);
    runtime.threads = threads;
    this.runtimes.set(provider, runtime);
    return runtime;
  }

  /** What a runtime is given to load. */
  #given() {
    const external = this.data.external.map((path) => ({ path, data: this.files.get(path) }));
    return [this.files.get(this.data.model), external, this.data.seconds.load];
  }

  #load(runtime) {
    return runtime.load(...this.#given());
  }

  async #runOn(provider, step, tell) {
    const runtime = this.runtimes.get(provider);
    step(`${LONG_NAMES[provider]}: loading the model`, 0);
    const placement = provider === "webgpu" ? await runtime.placement(...this.#given()) : null;
    const loaded = await this.#load(runtime);
    const run = {
      provider,
      version: runtime.version || this.data.runtime.version,
      threads: loaded.threads ?? runtime.threads,
      adapter: provider === "webgpu" ? this.adapter : null,
      load: ["loaded", "crash", "timeout"].includes(loaded.answer) ? loaded.answer : "error",
      error: loaded.error ?? null,
      placement,
      seconds: loaded.seconds ?? null,
      cases: [],
    };
    for (const [i, known] of this.cases.entries()) {
      step(`${LONG_NAMES[provider]}: ${known.name}`, (i + 0.5) / this.cases.length);
      const answer = run.load === "loaded" ? await this.#answer(provider, known) : { answer: "not_run" };
      const found = this.#judged(provider, known, answer);
      run.cases.push(found);
      tell({ run, found });
    }
    return Object.assign(run, settleRun(run.load, run.cases));
  }

  async #answer(provider, known) {
    const runtime = this.runtimes.get(provider);
    if (!runtime.running) {
      const loaded = await this.#load(runtime); // the worker ended in the case before
      if (loaded.answer !== "loaded") return { answer: "error", error: loaded.error };
    }
    return runtime.run(known.inputs, this.data.seconds.case, known.expect === "match" ? AGAIN : undefined);
  }

  #judged(provider, known, answer) {
    const comparisons = [];
    const outputs = answer.outputs ?? [];
    if (answer.answer === "outputs" && known.expect === "match") {
      for (let i = 0; i < Math.max(outputs.length, known.outputs.length); i++) {
        const both = outputs[i] && known.outputs[i];
        comparisons.push(both ? compare(outputs[i], known.outputs[i], this.data.tolerances) : { comparable: false, matches: false });
      }
    }
    const verdict = settle(known, answer.answer, comparisons, this.data.limits[RUNTIMES[provider]] ?? {});
    const found = { ...answer, ...verdict, name: known.name, expect: known.expect, outputs, comparisons };
    return { ...found, why: why(found, known) };
  }
}

const sum = (files) => files.reduce((n, f) => n + f.bytes, 0);

/** Why a case did not pass, in a sentence; empty when it did. */
function why(found, known) {
  const said = found.error ? `: ${found.error}` : "";
  if (found.limit) return `${found.limit.what[0].toUpperCase()}${found.limit.what.slice(1)}.`;
  if (!found.failure) return "";
  if (found.outcome === "mismatch") return difference(found, known);
  if (found.outcome === "accepted") return "An input that has to be refused was taken.";
  if (found.outcome === "rejected") return `A valid input was refused${said}`;
  if (found.outcome === "timeout") return `There was ${found.error}.`;
  return `The runtime gave no outputs${said}`;
}

function difference(found, known) {
  const i = found.comparisons.findIndex((c) => !c.matches);
  const c = found.comparisons[i];
  const [got, want] = [found.outputs[i], known.outputs[i]];
  if (!got || !want) return got ? `There is an output “${got.name}” more than expected.` : `The output “${want.name}” is missing.`;
  if (!c.comparable) return `The output “${want.name}” is ${show(got)}, not ${show(want)}.`;
  if (c.excess <= 1) return `The output “${want.name}” holds ${c.nonfinite} numbers that are not finite.`;
  return `The output “${want.name}” differs by up to ${magnitude(c.maxAbs)}: at [${c.worst.join(", ")}] it is ${element(c.got)}, not ${element(c.want)}.`;
}
