// Facts of a device, verdicts from them, and the file that onnxproof verify reads.

import { sha256 } from "./fetch.js";

const COMPRESSED_FROM = 1024; // bytes

/** What a case came to, by the rules of onnxproof.evidence.derive. `limit` is a known one that explains it. */
export function settle(known, answer, comparisons, limits) {
  const right = comparisons.length > 0 && comparisons.every((c) => c.matches);
  let [outcome, failure] = [answer, null];
  if (answer === "outputs" && known.expect === "match") [outcome, failure] = right ? ["match", null] : ["mismatch", "mismatch"];
  else if (answer === "outputs") [outcome, failure] = ["accepted", "input-contract"];
  else if (answer === "invalid-argument") [outcome, failure] = ["rejected", known.expect === "rejected" ? null : "input-contract"];
  else if (answer !== "not_run") failure = "runtime-error";
  let limit = null;
  if (failure && known.expect === "rejected" && (answer === "outputs" || answer === "error")) {
    limit = limits[known.kind] ?? null;
    if (limit) failure = null;
  }
  return { outcome, failure, limit };
}

/** Status and failure of a run: of loading, or of the first case that failed. */
export function settleRun(load, cases) {
  const failure = load === "loaded" ? (cases.find((c) => c.failure)?.failure ?? null) : "load-error";
  return { status: failure ? "failed" : "passed", failure };
}

const magnitude = (n) => (n === undefined ? null : Number.isFinite(n) ? n : "inf");

/** One output as the record holds it. */
export async function outputFact(output, comparison) {
  const small = output.bytes.length < COMPRESSED_FROM || !globalThis.CompressionStream;
  return {
    name: output.name,
    dtype: output.dtype,
    shape: output.shape,
    sha256: await sha256(output.bytes),
    encoding: small ? "plain" : "gzip",
    data: base64(small ? output.bytes : await gzip(output.bytes)),
    max_abs_error: magnitude(comparison?.maxAbs),
    max_rel_error: magnitude(comparison?.maxRel),
    excess: magnitude(comparison?.excess),
  };
}

async function gzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function base64(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

/** The record of some runs, as an object. */
export async function deviceRecord(data, runs) {
  const model = data.files.find((f) => f.role === "model");
  return {
    format: "onnxproof.device/1",
    onnxproof: data.onnxproof,
    saved: new Date().toISOString(),
    bundle: { record: data.record.digest, model: model.sha256 },
    device: {
      user_agent: navigator.userAgent.slice(0, 4000),
      platform: navigator.userAgentData?.platform ?? navigator.platform ?? "",
      cores: navigator.hardwareConcurrency ?? 0,
      cross_origin_isolated: Boolean(globalThis.crossOriginIsolated),
    },
    runs: await Promise.all(runs.map(runFact)),
    status: runs.every((r) => r.status === "passed") ? "passed" : "failed",
  };
}

/** The text of a record. Whole numbers beyond 64 bits, which errors may be, have a point: JSON's readers limit integers. */
export function textOf(record) {
  const text = JSON.stringify(record, null, 1);
  return `${text.replace(/("(?:max_abs_error|max_rel_error|excess)": \d{16,})(?=[,\n])/g, "$1.0")}\n`;
}

async function runFact(run) {
  return {
    provider: run.provider,
    version: run.version,
    threads: run.threads,
    adapter: run.adapter,
    load: run.load,
    error: run.error?.slice(0, 4000) ?? null,
    placement: run.placement,
    load_seconds: run.seconds,
    cases: await Promise.all(run.cases.map(caseFact)),
    status: run.status,
    failure: run.failure,
  };
}

async function caseFact(found) {
  const kept = found.answer === "outputs" && found.expect === "match" ? found.outputs : [];
  return {
    name: found.name,
    answer: found.answer,
    error: found.error?.slice(0, 4000) ?? null,
    seconds: found.seconds ?? null,
    warm_seconds: found.warm_seconds ?? null,
    outputs: await Promise.all(kept.map((o, i) => outputFact(o, found.comparisons[i]))),
    outcome: found.outcome,
    failure: found.failure,
  };
}
