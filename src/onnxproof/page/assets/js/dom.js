// Elements, and figures as people read them.

const SVG = "http://www.w3.org/2000/svg";

export const at = (id) => document.getElementById(id);

/** An element with attributes (or properties, from "." on), and children that are elements or text. */
export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith(".")) element[key.slice(1)] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((c) => c !== null && c !== undefined));
  return element;
}

export function bytes(n) {
  if (n < 1000) return `${n} bytes`;
  return n < 999500 ? `${Math.round(n / 1000)} kB` : `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)} MB`;
}

export function seconds(s) {
  if (s === null || s === undefined) return "";
  if (s >= 1) return `${s.toPrecision(3)} s`;
  return s >= 1e-3 ? `${(s * 1e3).toPrecision(s >= 0.1 ? 3 : 2)} ms` : `${Math.max(s * 1e6, 0).toFixed(0)} µs`;
}

/** An error: 0 exactly, or two digits. */
export function error(e) {
  if (e === null || e === undefined) return "";
  if (e === 0) return "0";
  if (!Number.isFinite(e)) return "not finite";
  return e >= 0.01 && e < 1000 ? e.toPrecision(2) : e.toExponential(1);
}

/** An element of a tensor, to the digits that tell float32 values apart. */
export function element(v) {
  if (typeof v === "bigint" || Number.isInteger(v)) return String(v);
  return Number.isFinite(v) ? String(Number(v.toPrecision(9))) : Number.isNaN(v) ? "NaN" : String(v);
}

export function save(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
