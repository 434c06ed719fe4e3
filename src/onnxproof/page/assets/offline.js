// A page that was loaded once works without a network: the newest answer is kept, and given when no other comes.
// Nothing here is trusted: the page holds every file against its hash, wherever it comes from.

const KEPT = `onnxproof ${self.registration.scope}`;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("message", (event) => {
  event.waitUntil(caches.open(KEPT).then((kept) => kept.addAll([...new Set(event.data)])));
});
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method === "GET" && request.url.startsWith(self.registration.scope)) event.respondWith(answer(event));
});

async function answer(event) {
  const kept = await caches.open(KEPT);
  try {
    const fresh = await fetch(event.request);
    if (fresh.status === 200) event.waitUntil(kept.put(event.request, fresh.clone()).catch(() => {})); // no space left
    return fresh;
  } catch (err) {
    const old = await kept.match(event.request, { ignoreSearch: true });
    if (old) return old;
    throw err;
  }
}
