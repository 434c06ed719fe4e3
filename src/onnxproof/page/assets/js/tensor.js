// Tensors: the files of a bundle (the subset of TensorProto that onnxproof writes) and NumPy's .npy.

const F16 = globalThis.Float16Array;

// Name as NumPy has it → code in TensorProto, bytes of an element, array type, descr in .npy.
const KINDS = {
  float32: [1, 4, Float32Array, "f4"],
  uint8: [2, 1, Uint8Array, "u1"],
  int8: [3, 1, Int8Array, "i1"],
  uint16: [4, 2, Uint16Array, "u2"],
  int16: [5, 2, Int16Array, "i2"],
  int32: [6, 4, Int32Array, "i4"],
  int64: [7, 8, BigInt64Array, "i8"],
  bool: [9, 1, Uint8Array, "b1"],
  float16: [10, 2, F16 ?? Uint16Array, "f2"],
  float64: [11, 8, Float64Array, "f8"],
  uint32: [12, 4, Uint32Array, "u4"],
  uint64: [13, 8, BigUint64Array, "u8"],
  complex64: [14, 8, Float32Array, "c8"],
  complex128: [15, 16, Float64Array, "c16"],
};
const BY_CODE = Object.fromEntries(Object.entries(KINDS).map(([name, [code]]) => [code, name]));
const BY_DESCR = Object.fromEntries(Object.entries(KINDS).map(([name, [, , , descr]]) => [descr, name]));

export const sizeOf = (dtype) => KINDS[dtype][1];
export const count = (shape) => shape.reduce((a, b) => a * b, 1);
export const isInexact = (dtype) => dtype.startsWith("float") || dtype.startsWith("complex");
export const isComplex = (dtype) => dtype.startsWith("complex");
export const isBig = (dtype) => dtype === "int64" || dtype === "uint64";
export const show = ({ dtype, shape }) => `${dtype}[${(shape ?? ["?"]).map((d) => d || "?").join(", ")}]`;

/** The elements of a tensor {dtype, shape, bytes} as the runtime takes them: a typed array over a copy. */
export function typed({ dtype, bytes }) {
  const copy = bytes.slice();
  const Kind = KINDS[dtype][2];
  return new Kind(copy.buffer, 0, copy.byteLength / Kind.BYTES_PER_ELEMENT);
}

/** The same as numbers (BigInt for 64-bit integers); of complex numbers, real and imaginary parts in turn. */
export function elements(tensor) {
  const array = typed(tensor);
  return tensor.dtype === "float16" && !F16 ? Float32Array.from(array, half) : array;
}

export function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits >> 15 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

/** A tensor from numbers, rounded and wrapped as typed arrays do. */
export function fromNumbers(dtype, shape, numbers) {
  let array;
  if (dtype === "bool") array = Uint8Array.from(numbers, (n) => Number(n) !== 0);
  else if (isBig(dtype)) array = KINDS[dtype][2].from(numbers, toBig);
  else if (dtype === "float16" && !F16) array = Uint16Array.from(numbers, (n) => toHalf(Number(n)));
  else array = KINDS[dtype][2].from(numbers, Number);
  return { dtype, shape, bytes: new Uint8Array(array.buffer) };
}

const toBig = (n) => (typeof n === "bigint" ? n : BigInt(Math.trunc(Number(n))));

/** Bits of the half nearest to a number, ties to even. */
export function toHalf(value) {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(Math.floor(Math.log2(size || 1e-30)), -14);
  const steps = size / 2 ** (exponent - 10);
  let rounded = Math.floor(steps);
  if (steps - rounded > 0.5 || (steps - rounded === 0.5 && rounded % 2)) rounded += 1;
  return sign | (rounded + ((exponent + 14) << 10)); // a carry goes into the exponent, as it should
}

/** Name and tensor of a file of a case. */
export function fromProto(data) {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      if (at >= data.length || scale > 2 ** 49) throw new Error("a tensor file is cut short");
      const byte = data[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  let dtype = "";
  let name = "";
  let bytes = new Uint8Array();
  const shape = [];
  while (at < data.length) {
    const key = varint();
    const value = varint();
    if (key === 8) shape.push(value); // dims
    else if (key === 16) dtype = BY_CODE[value]; // data_type
    else {
      const chunk = data.subarray(at, (at += value));
      if (key === 66) name = new TextDecoder().decode(chunk);
      else if (key === 74) bytes = chunk; // raw_data
      else throw new Error(`a tensor file has a field of key ${key}`);
    }
  }
  if (!dtype || bytes.length !== count(shape) * sizeOf(dtype)) throw new Error("a tensor file contradicts itself");
  return { name, dtype, shape, bytes };
}

/** The tensor of a .npy file in row-major order. */
export function fromNpy(data) {
  if (data.length < 12 || String.fromCharCode(...data.subarray(1, 6)) !== "NUMPY") {
    throw new Error("it is not a .npy file");
  }
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const [start, size] = data[6] === 1 ? [10, view.getUint16(8, true)] : [12, view.getUint32(8, true)];
  const header = new TextDecoder("latin1").decode(data.subarray(start, start + size));
  const descr = /'descr': '([<>|=])([a-z]\d+)'/.exec(header);
  const dims = /'shape': \(([\d, ]*)\)/.exec(header);
  const dtype = descr && BY_DESCR[descr[2]];
  if (!dims || !dtype || isComplex(dtype)) throw new Error("the .npy file holds no numbers that a model takes");
  if (descr[1] === ">") throw new Error("the .npy file is big-endian; save it from x.astype(x.dtype.newbyteorder('<'))");
  const shape = dims[1].split(",").filter((d) => d.trim()).map(Number);
  if (/'fortran_order': True/.test(header) && shape.filter((d) => d > 1).length > 1) {
    throw new Error("the .npy file is in column-major order; save it from numpy.ascontiguousarray(x)");
  }
  const bytes = data.slice(start + size);
  if (bytes.length !== count(shape) * sizeOf(dtype)) throw new Error("the .npy file is cut short");
  return { dtype, shape, bytes };
}

/** The bytes of a .npy file, version 1.0. */
export function toNpy({ dtype, shape, bytes }) {
  const descr = (sizeOf(dtype) === 1 ? "|" : "<") + KINDS[dtype][3];
  const dims = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const text = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${dims}), }`;
  const padded = text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11) + "\n";
  const file = new Uint8Array(10 + padded.length + bytes.length);
  file.set([0x93, 78, 85, 77, 80, 89, 1, 0, padded.length & 255, padded.length >> 8]);
  file.set(new TextEncoder().encode(padded), 10);
  file.set(bytes, 10 + padded.length);
  return file;
}
