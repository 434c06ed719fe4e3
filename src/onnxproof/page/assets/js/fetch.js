// Files of the page's own folder, with progress, and held against their hashes before anyone uses them.

export class Refused extends Error {}

/** SHA-256 as hexadecimal digits. */
export async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * The bytes of a file whose size and hash are known.
 * @param file {path, bytes, sha256, role} as data.json has it.
 * @param base the folder, ending in a slash.
 * @param heard called with the number of bytes that came since the last call.
 */
export async function fetchChecked(file, base, heard = () => {}) {
  const url = new URL(file.path.split("/").map(encodeURIComponent).join("/"), base);
  const what = file.role === "model" ? "the model" : file.path;
  let answer;
  try {
    answer = await fetch(url, { cache: "no-cache" });
  } catch {
    throw new Error(`${what} did not come: the network or the host does not answer`);
  }
  if (!answer.ok) throw new Error(`${what} did not come: the host answers ${answer.status}`);
  const bytes = new Uint8Array(file.bytes);
  let at = 0;
  const reader = answer.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length > file.bytes) {
      reader.cancel();
      at += value.length;
      break;
    }
    bytes.set(value, at);
    at += value.length;
    heard(value.length);
  }
  const whose = file.role === "model" ? "The model's bytes" : `The bytes of ${file.path}`;
  if (at !== file.bytes) {
    throw new Refused(`${whose} are not those of the record: ${at < file.bytes ? at : `more than ${file.bytes}`} came, not ${file.bytes}.`);
  }
  const found = await sha256(bytes);
  if (found !== file.sha256) {
    throw new Refused(`${whose} are not those of the record: their SHA-256 is ${found}, not ${file.sha256}.`);
  }
  return bytes;
}

/** All of `files`, six at a time, as a map from path to bytes; the first fault ends it. */
export async function fetchAll(files, base, heard) {
  const found = new Map();
  const waiting = [...files];
  const lane = async () => {
    for (let file; (file = waiting.shift()); ) {
      try {
        found.set(file.path, await fetchChecked(file, base, heard));
      } catch (err) {
        waiting.length = 0;
        throw err;
      }
    }
  };
  await Promise.all(Array.from({ length: 6 }, lane));
  return found;
}
