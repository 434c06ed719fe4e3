// Plots as SVG: drawn for the width there is, so that text keeps its size on a phone.

import { draw, error, make, seconds } from "./dom.js";

const ROW = 26;
const SHAPES = { wasm: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", webgpu: "M-3.6 -3.6H3.6V3.6H-3.6Z" };
export const NAMES = { wasm: "WASM", webgpu: "WebGPU" };
const MOST = 40; // rows of a plot; the worst are shown

const width = (place) => Math.max(place.clientWidth, 240);

function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function logAxis(values, start, end) {
  const known = values.filter((v) => v > 0 && Number.isFinite(v)).map(Math.log10);
  const low = Math.floor(Math.min(...known, 0));
  const high = Math.max(Math.ceil(Math.max(...known, low)), low + 1);
  const zero = values.some((v) => v === 0) ? 26 : 0; // 0 has a place of its own
  const of = (v) => {
    if (v === 0) return start;
    if (!Number.isFinite(v)) return end;
    return start + zero + ((Math.log10(v) - low) / (high - low)) * (end - start - zero);
  };
  const step = Math.max(1, Math.ceil((high - low) / Math.max(2, Math.floor((end - start) / 58))));
  const ticks = [];
  for (let e = low; e <= high; e += step) ticks.push([of(10 ** e), e]);
  return { of, ticks, zero: zero ? start : null };
}

/**
 * A row for each case and marks for each provider.
 * @param rows [{name, marks: [{provider, value, first, text}]}]
 */
function rowsPlot(place, rows, { title, tick, limit = null }) {
  const wide = width(place);
  const left = Math.min(150, wide * 0.34);
  const tall = rows.length * ROW + 34;
  const values = rows.flatMap((r) => r.marks.flatMap((m) => (m.first === undefined ? [m.value] : [m.value, m.first])));
  const axis = logAxis(limit === null ? values : [...values, limit], left + 8, wide - 14);
  const svg = draw("svg", { width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": title });
  const bottom = rows.length * ROW + 8;
  const marks = axis.zero === null ? axis.ticks : [[axis.zero, null], ...axis.ticks];
  for (const [x, e] of marks) {
    svg.append(draw("line", { class: "grid", x1: x, x2: x, y1: 4, y2: bottom }));
    svg.append(draw("text", { class: "tick-label", x, y: bottom + 16, "text-anchor": "middle" }, e === null ? "0" : tick(e)));
  }
  if (limit !== null) {
    const x = axis.of(limit);
    svg.append(draw("line", { class: "limit", x1: x, x2: x, y1: 4, y2: bottom }));
  }
  rows.forEach(({ name, marks: points }, i) => {
    const y = i * ROW + ROW / 2 + 6;
    svg.append(draw("text", { x: 0, y: y + 4 }, cut(name, Math.floor(left / 6.6)), draw("title", {}, name)));
    points.forEach(({ provider, value, first, text }, j) => {
      const up = y + (points.length > 1 ? (j - (points.length - 1) / 2) * 9 : 0);
      const x = axis.of(value);
      if (first !== undefined) {
        svg.append(draw("line", { class: `${provider} span`, x1: x, x2: axis.of(first), y1: up, y2: up }));
        svg.append(draw("path", { class: `${provider} hollow`, d: SHAPES[provider], transform: `translate(${axis.of(first)} ${up})` }));
      }
      const words = draw("title", {}, `${NAMES[provider]}, ${name}: ${text}`);
      svg.append(draw("path", { class: provider, d: SHAPES[provider], transform: `translate(${x} ${up})` }, words));
    });
  });
  place.replaceChildren(svg);
}

function legend(providers, last = null) {
  const mark = (provider) => draw("svg", { viewBox: "-6 -6 12 12", "aria-hidden": "true" }, draw("path", { class: provider, d: SHAPES[provider] }));
  const entries = providers.map((p) => make("span", {}, mark(p), NAMES[p]));
  return make("div", { class: "legend" }, ...entries, last);
}

const power = (e) => (e >= -3 && e <= 3 ? String(Number((10 ** e).toPrecision(1))) : `1e${e}`);
const time = (e) => (e >= 0 ? `${10 ** e} s` : e >= -3 ? `${10 ** (e + 3)} ms` : `${10 ** (e + 6)} µs`);

export function errorPlot(place, names, runs) {
  const rows = names.map((name) => ({ name, marks: runs.flatMap((run) => errorMark(run, name)) })).filter((r) => r.marks.length);
  rows.sort((a, b) => (rows.length > MOST ? worst(b) - worst(a) : 0));
  rowsPlot(place, rows.slice(0, MOST), { title: "Largest error of each case, as a part of what is allowed", tick: power, limit: 1 });
  place.append(legend(runs.map((r) => r.provider), make("span", { class: "soft" }, "the broken line is what is allowed")));
}

const worst = (row) => Math.max(...row.marks.map((m) => m.value));

function errorMark(run, name) {
  const found = run.cases.find((c) => c.name === name);
  if (!found || !found.comparisons.length) return [];
  const value = Math.max(...found.comparisons.map((c) => c.excess ?? Infinity));
  return [{ provider: run.provider, value, text: value === 0 ? "no error at all" : `${error(value)} of what is allowed` }];
}

export function latencyPlot(place, names, runs) {
  const rows = names
    .map((name) => ({
      name,
      marks: runs.flatMap(({ provider, cases }) => {
        const found = cases.find((c) => c.name === name);
        if (!found || !found.seconds || found.expect !== "match") return [];
        const value = found.warm_seconds || found.seconds;
        return [{ provider, value, first: found.seconds, text: `${seconds(value)}, the first time ${seconds(found.seconds)}` }];
      }),
    }))
    .filter((r) => r.marks.length);
  rowsPlot(place, rows.slice(0, MOST), { title: "Latency of each case", tick: time });
  place.append(legend(runs.map((r) => r.provider)));
}

/** Horizontal bars: [[name, value, words]]; those of negative values go to the left. */
export function bars(place, rows, title) {
  const wide = width(place);
  const left = Math.min(190, Math.max(...rows.map(([name]) => name.length)) * 6.8 + 12, wide * 0.45);
  const [low, high] = [Math.min(0, ...rows.map(([, v]) => v)), Math.max(0, ...rows.map(([, v]) => v))];
  const room = wide - left - (low < 0 ? 2 : 1) * 62;
  const zero = left + (low < 0 ? 62 : 0) + (-low / (high - low || 1)) * room;
  const tall = rows.length * 22 + 4;
  const svg = draw("svg", { width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": title });
  rows.forEach(([name, value, words], i) => {
    const y = i * 22;
    const long = Math.max((Math.abs(value) / (high - low || 1)) * room, 1.5);
    const back = value < 0;
    svg.append(draw("text", { x: 0, y: y + 15 }, cut(name, Math.floor(left / 6.8)), draw("title", {}, name)));
    svg.append(draw("rect", { class: "bar", x: back ? zero - long : zero, y: y + 4, width: long, height: 14, rx: 3 }));
    const end = { x: back ? zero - long - 6 : zero + long + 6, "text-anchor": back ? "end" : "start" };
    svg.append(draw("text", { class: "tick-label", y: y + 15, ...end }, words));
  });
  if (low < 0) svg.append(draw("line", { class: "axis", x1: zero, x2: zero, y1: 0, y2: tall }));
  place.replaceChildren(svg);
}
