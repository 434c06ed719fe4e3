// The reader's own inputs: typed numbers, a .npy file, a picture, or a case of the bundle, for each input.

import { bars } from "./charts.js";
import { at, element, make, save, seconds } from "./dom.js";
import { fromImage, layouts, SCALES } from "./image.js";
import { count, elements, fromNpy, fromNumbers, isInexact, show, toNpy } from "./tensor.js";

const TYPED = 512; // elements of a case that are put into the field for typing
const SHOWN = 12; // elements of an output that are written out
const BARS = 64;

export class Own {
  #ports = [];
  #proof;

  /** Build the form; the proof has its files. */
  constructor(proof) {
    this.#proof = proof;
    const good = proof.cases.filter((c) => c.expect === "match");
    const texts = [...new Set(proof.data.inputs.flatMap((p) => (p.shape ?? []).filter((d) => typeof d === "string")))];
    at("sizes").replaceChildren(...texts.map((text, i) => this.#sizeField(text, i, good[0])));
    this.#ports = proof.data.inputs.map((port, i) => new Port(port, i, good, () => this.#sizes(texts)));
    at("ports").replaceChildren(...this.#ports.map((p) => p.element));
  }

  /** Inputs from the form; says plainly which is wrong. */
  async tensors() {
    const found = [];
    for (const port of this.#ports) {
      try {
        found.push(await port.tensor());
      } catch (err) {
        throw new Error(`${port.name}: ${err.message}.`);
      }
    }
    return found;
  }

  async run(provider) {
    const inputs = await this.tensors();
    const runtime = await this.#proof.ready(provider);
    const answer = await runtime.run(inputs, this.#proof.data.seconds.case);
    if (answer.answer === "invalid-argument") throw new Error(`The model refuses these inputs: ${answer.error}`);
    if (answer.answer !== "outputs") throw new Error(`The runtime gave no outputs: ${answer.error}`);
    at("own-outputs").replaceChildren(...answer.outputs.map(shown));
    for (const [i, output] of answer.outputs.entries()) chart(at("own-outputs").children[i], output);
    return `Done in ${seconds(answer.seconds)}.`;
  }

  #sizeField(text, i, example) {
    const place = this.#proof.data.inputs.flatMap((p, j) => (p.shape ?? []).map((d, axis) => [d, j, axis])).find(([d]) => d === text);
    const value = example?.inputs[place[1]]?.shape[place[2]] ?? 1;
    const input = make("input", { type: "number", min: 0, max: 1e9, step: 1, required: true, id: `size-${i}`, ".value": value });
    return make("label", {}, `Size of ${text || "a dimension without a name"}`, input);
  }

  #sizes(texts) {
    return Object.fromEntries(texts.map((text, i) => [text, Number(at(`size-${i}`).value)]));
  }
}

class Port {
  constructor(port, i, cases, sizes) {
    Object.assign(this, { port, cases, sizes, name: port.name, position: i });
    const pictures = layouts(port.shape);
    const options = [
      ...cases.map((c) => [`case ${c.name}`, c.name]),
      ["numbers", "\0numbers"],
      [".npy file", "\0npy"],
      ...(pictures.length ? [["image", "\0image"]] : []),
    ];
    const pick = (values, label) => {
      const select = make("select", {}, ...values.map(([text, value]) => make("option", { ".value": value }, text)));
      return [select, make("label", {}, label, select)];
    };
    let from, layout, scale;
    [this.source, from] = pick(options, "From");
    [this.layout, layout] = pick(pictures.map((p) => [`channels ${p}`, p]), "Order");
    const scales = Object.keys(SCALES).filter((s) => isInexact(port.dtype) || s === "0 to 255");
    [this.scale, scale] = pick(scales.map((s) => [s, s]), "Scale");
    this.file = make("input", { type: "file", "aria-label": `File for ${port.name}` });
    this.text = make("textarea", { "aria-label": `Numbers for ${port.name}`, spellcheck: "false", autocapitalize: "off" });
    this.canvas = make("canvas", { hidden: true, role: "img", "aria-label": "The image as the model gets it" });
    this.said = make("p", { class: "soft", hidden: true });
    const row = make("div", { class: "row" }, from, this.file, layout, scale);
    const legend = make("legend", {}, port.name, " ", make("span", {}, show(port)));
    this.element = make("fieldset", { class: "port", "data-port": port.name }, legend, row, this.text, this.canvas, this.said);
    this.parts = { layout, scale };
    this.source.onchange = () => this.#show();
    this.file.onchange = this.layout.onchange = this.scale.onchange = () => this.#preview();
    if (cases.length && count(cases[0].inputs[i].shape) <= TYPED) {
      this.text.value = [...elements(cases[0].inputs[i])].map(element).join(", ");
    }
    this.#show();
  }

  #show() {
    const kind = this.source.value;
    this.file.hidden = kind !== "\0npy" && kind !== "\0image";
    this.file.accept = kind === "\0npy" ? ".npy" : "image/*";
    this.file.value = "";
    this.text.hidden = kind !== "\0numbers";
    this.canvas.hidden = this.said.hidden = true;
    this.parts.layout.hidden = kind !== "\0image" || this.layout.options.length < 2;
    this.parts.scale.hidden = kind !== "\0image";
  }

  async #preview() {
    if (this.source.value !== "\0image" || !this.file.files.length) return;
    try {
      await this.tensor();
      this.canvas.hidden = false;
      this.#say(`Cropped in the middle to ${this.canvas.width} × ${this.canvas.height} pixels.`);
    } catch (err) {
      this.#say(`${this.name}: ${err.message}.`);
    }
  }

  #say(text) {
    this.said.textContent = text;
    this.said.hidden = false;
  }

  /** The tensor that the form gives for this input. */
  async tensor() {
    const kind = this.source.value;
    if (kind === "\0numbers") return this.#numbers();
    if (kind === "\0npy") return this.#npy();
    if (kind === "\0image") return fromImage(this.#given(), this.port.dtype, this.#shape(), this.layout.value, this.scale.value, this.canvas);
    return this.cases.find((c) => c.name === kind).inputs[this.position];
  }

  #given() {
    if (!this.file.files.length) throw new Error("choose a file");
    return this.file.files[0];
  }

  #shape() {
    if (!this.port.shape) throw new Error("the model says nothing of its shape: give a .npy file");
    const sizes = this.sizes();
    const shape = this.port.shape.map((d) => (typeof d === "string" ? sizes[d] : d));
    if (!shape.every((d) => Number.isInteger(d) && d >= 0)) throw new Error("a size is not a whole number");
    return shape;
  }

  #numbers() {
    const shape = this.#shape();
    const words = this.text.value.split(/[\s,;[\]()]+/).filter(Boolean);
    const numbers = words.map((word) => number(word, this.port.dtype));
    const size = count(shape);
    if (numbers.length === 1 && size !== 1) return fromNumbers(this.port.dtype, shape, Array(size).fill(numbers[0]));
    if (numbers.length !== size) {
      throw new Error(`${size} numbers are needed for ${show({ dtype: this.port.dtype, shape })}, or one for all of them; ${numbers.length} are there`);
    }
    return fromNumbers(this.port.dtype, shape, numbers);
  }

  async #npy() {
    const tensor = fromNpy(new Uint8Array(await this.#given().arrayBuffer()));
    if (tensor.dtype === this.port.dtype) return tensor;
    this.#say(`${show(tensor)} became ${this.port.dtype}.`);
    return fromNumbers(this.port.dtype, tensor.shape, [...elements(tensor)]);
  }
}

function number(word, dtype) {
  const named = { true: 1, false: 0, nan: NaN, inf: Infinity, "-inf": -Infinity, "+inf": Infinity }[word.toLowerCase()];
  const value = named ?? Number(word);
  if (named === undefined && !Number.isFinite(value)) throw new Error(`${word} is not a number`);
  if (isInexact(dtype) || dtype === "bool") return value;
  if (!Number.isInteger(value)) throw new Error(`${word} is not a whole number`);
  return dtype.endsWith("64") ? BigInt(word.replace("+", "")) : value;
}

function shown(output) {
  const values = elements(output);
  const first = [...values.slice(0, SHOWN)].map(element).join(", ") + (values.length > SHOWN ? ", …" : "");
  const button = make("button", { type: "button", class: "small" }, "Save as .npy");
  button.onclick = () => save(`${output.name.replace(/[^\w.-]+/g, "_")}.npy`, toNpy(output), "application/octet-stream");
  const head = make("div", { class: "head" }, make("h3", {}, output.name, " ", make("span", { class: "soft" }, show(output))), button);
  const place = make("div", { class: "bars" });
  return make("div", { class: "output" }, head, make("p", { class: "mono" }, first || "no elements"), place);
}

/** Bars of the first row, where it is short enough to be read. */
function chart(place, output) {
  const long = output.shape.at(-1) ?? 0;
  if (long < 2 || long > BARS) return;
  const row = [...elements(output).slice(0, long)].map(Number);
  if (!row.every(Number.isFinite)) return;
  bars(place.lastElementChild, row.map((v, i) => [`[${i}]`, v, element(Number(v.toPrecision(4)))]), `The first row of ${output.name}`);
}
