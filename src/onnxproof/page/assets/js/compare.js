// One output against what is expected of it: the same arithmetic as onnxproof.evidence.compare, in doubles.

import { count, elements, isBig, isComplex, isInexact } from "./tensor.js";

const TINY = 2.2250738585072014e-308;

/**
 * Errors of a result: {comparable, matches, maxAbs, maxRel, excess, worst, got, want, nonfinite}.
 * `excess` is the largest ratio of an error to `atol + rtol * |want|`; infinite where one side alone is not finite.
 */
export function compare(got, want, { rtol, atol, nonfinite }) {
  got = joined(got, want);
  const same = got.dtype === want.dtype && String(got.shape) === String(want.shape);
  const found = { comparable: same, matches: false, nonfinite: 0, worst: null, got: null, want: null };
  const a = elements(got);
  if (isInexact(got.dtype)) found.nonfinite = notFinite(a, isComplex(got.dtype) ? 2 : 1);
  if (!same) return found;
  Object.assign(found, { maxAbs: 0, maxRel: 0, excess: 0 });
  const b = elements(want);
  const pair = isComplex(want.dtype);
  const exact = !isInexact(want.dtype);
  const size = count(want.shape);
  for (let i = 0; i < size; i++) {
    const [error, magnitude] = pair ? complexError(a, b, 2 * i) : realError(a[i], b[i], isBig(want.dtype));
    if (found.worst === null) note(found, 0, a, b, pair);
    if (error === null) continue;
    const allowed = exact ? 0 : atol + rtol * (Number.isFinite(magnitude) ? magnitude : 0);
    const excess = allowed > 0 ? error / allowed : Infinity;
    const relative = error / Math.max(magnitude, TINY);
    found.maxAbs = Math.max(found.maxAbs, error);
    found.maxRel = Math.max(found.maxRel, Number.isNaN(relative) ? Infinity : relative);
    if (excess > found.excess) {
      found.excess = excess;
      note(found, i, a, b, pair);
    }
  }
  if (found.worst !== null) found.worst = unravel(found.worst, want.shape);
  found.matches = found.excess <= 1 && !(found.nonfinite && nonfinite === "refused");
  return found;
}

/** Error and magnitude of what is wanted; the error is null where both are the same. */
function realError(a, b, big) {
  if (a === b || (a !== a && b !== b)) return [null, 0];
  const [x, y] = big ? [Number(a), Number(b)] : [a, b];
  const error = Math.abs(x - y);
  return [Number.isNaN(error) ? Infinity : error, Math.abs(y)];
}

function complexError(a, b, at) {
  const [ar, ai, br, bi] = [a[at], a[at + 1], b[at], b[at + 1]];
  const lost = (re, im) => Number.isNaN(re) || Number.isNaN(im);
  if ((ar === br && ai === bi) || (lost(ar, ai) && lost(br, bi))) return [null, 0];
  const error = Math.hypot(ar - br, ai - bi);
  return [Number.isNaN(error) ? Infinity : error, Math.hypot(br, bi)];
}

/** Trailing pairs of reals as complex numbers, where those are wanted. */
function joined(got, want) {
  const fits = isComplex(want.dtype) && got.dtype.startsWith("float") && String(got.shape) === String([...want.shape, 2]);
  const dtype = got.dtype === "float32" ? "complex64" : "complex128";
  return fits && got.dtype !== "float16" ? { ...got, dtype, shape: want.shape } : got;
}

function notFinite(array, step) {
  let n = 0;
  for (let i = 0; i < array.length; i += step) {
    if (!Number.isFinite(array[i]) || !Number.isFinite(array[i + step - 1])) n += 1;
  }
  return n;
}

function note(found, i, a, b, pair) {
  found.worst = i;
  found.got = pair ? Math.hypot(a[2 * i], a[2 * i + 1]) : a[i];
  found.want = pair ? Math.hypot(b[2 * i], b[2 * i + 1]) : b[i];
}

function unravel(at, shape) {
  const index = [];
  for (const d of [...shape].reverse()) {
    index.unshift(at % d);
    at = Math.floor(at / d);
  }
  return index;
}
