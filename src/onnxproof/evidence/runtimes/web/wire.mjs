// Messages between Python and JavaScript: the length of a header (uint32, little endian), the header as JSON, and
// after it the bytes of its "blobs", whose lengths it lists. Values travel as bytes, so that none of them changes.

/** A header and its blobs (Uint8Array, each a copy that starts at offset 0 of its own buffer). */
export function unpack(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  let at = 4 + length;
  const blobs = header.blobs.map((size) => bytes.slice(at, (at += size)));
  return { header, blobs };
}

/** The bytes of a message. */
export function pack(header, blobs = []) {
  const text = new TextEncoder().encode(JSON.stringify({ ...header, blobs: blobs.map((b) => b.byteLength) }));
  const bytes = new Uint8Array(blobs.reduce((sum, b) => sum + b.byteLength, 4 + text.length));
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  let at = 4 + text.length;
  for (const blob of blobs) {
    bytes.set(blob, at);
    at += blob.byteLength;
  }
  return bytes;
}
