// A picture as the input of a model: cropped in the middle to the sizes that it takes, scaled, in its order of axes.

import { fromNumbers } from "./tensor.js";

const CHANNELS = [1, 3, 4];
const MEAN = [0.485, 0.456, 0.406]; // of ImageNet, as torchvision has them
const DEVIATION = [0.229, 0.224, 0.225];

/** Numbers from a byte, for channel c. */
export const SCALES = {
  "0 to 1": (v) => v / 255,
  "-1 to 1": (v) => v / 127.5 - 1,
  "0 to 255": (v) => v,
  "ImageNet's mean and deviation": (v, c) => (v / 255 - MEAN[c % 3]) / DEVIATION[c % 3],
};

/** Where channels may be in a shape: "last" and "first", none when it is no picture's. */
export function layouts(shape) {
  if (!shape || shape.length < 3 || shape.length > 4) return [];
  const wide = (d) => typeof d === "string" || d > 4;
  const [a, b, c] = shape.slice(-3);
  const found = [];
  if (CHANNELS.includes(c) && wide(a) && wide(b)) found.push("last");
  if (CHANNELS.includes(a) && wide(b) && wide(c)) found.push("first");
  return found;
}

/**
 * The tensor of a picture, drawn on `canvas` on the way.
 * @param shape concrete; what is before the last three axes repeats the picture
 */
export async function fromImage(file, dtype, shape, layout, scale, canvas) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error("the file is not an image that this browser reads");
  }
  const [a, b, c] = shape.slice(-3);
  const [high, wide, channels] = layout === "last" ? [a, b, c] : [b, c, a];
  Object.assign(canvas, { width: wide, height: high });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const zoom = Math.max(wide / bitmap.width, high / bitmap.height);
  const [w, h] = [bitmap.width * zoom, bitmap.height * zoom];
  context.drawImage(bitmap, (wide - w) / 2, (high - h) / 2, w, h);
  bitmap.close();
  const pixels = context.getImageData(0, 0, wide, high).data;
  const convert = SCALES[scale];
  const one = new Float64Array(high * wide * channels);
  for (let i = 0; i < high * wide; i++) {
    for (let k = 0; k < channels; k++) {
      const gray = 0.299 * pixels[4 * i] + 0.587 * pixels[4 * i + 1] + 0.114 * pixels[4 * i + 2];
      const value = convert(channels === 1 ? gray : pixels[4 * i + k], k);
      one[layout === "last" ? i * channels + k : k * high * wide + i] = value;
    }
  }
  const times = shape.length === 4 ? shape[0] : 1;
  const all = new Float64Array(one.length * times);
  for (let i = 0; i < times; i++) all.set(one, i * one.length);
  return fromNumbers(dtype, shape, dtype.startsWith("float") ? all : all.map(Math.round));
}
