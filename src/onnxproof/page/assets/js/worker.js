// One runtime in a worker of its own: the page stays usable, and a hang can be ended.

let ort = null;
let session = null;
let heard = null; // lines that the runtime writes while a model is loaded

for (const name of ["log", "info", "warn", "error", "debug"]) {
  const own = console[name].bind(console);
  console[name] = (...words) => {
    if (heard) heard.push(words.join(" "));
    else own(...words);
  };
}

const acts = {
  async start({ entry, loader, wasm, binary, threads }) {
    ort = await import(entry);
    Object.assign(ort.env.wasm, { wasmPaths: { mjs: loader, wasm }, wasmBinary: binary, numThreads: threads, proxy: false });
    return { answer: "started", version: ort.env.versions.web };
  },

  async load({ provider, model, external, verbose }) {
    if (verbose) heard = [];
    ort.env.logLevel = verbose ? "verbose" : "error"; // of the whole worker, and for good
    const before = performance.now();
    session = await ort.InferenceSession.create(model, {
      executionProviders: [provider], // alone: beside another it may not be used at all
      externalData: external,
      ...(verbose ? { logSeverityLevel: 0, logVerbosityLevel: 1 } : { logSeverityLevel: 3 }),
    });
    const seconds = (performance.now() - before) / 1000;
    return { answer: "loaded", seconds, placement: heard && placement(heard), threads: ort.env.wasm.numThreads };
  },

  async run({ inputs, again }) {
    const feed = () =>
      Object.fromEntries(inputs.map((t, i) => [session.inputNames[i], new ort.Tensor(t.dtype, t.data, t.shape)]));
    const before = performance.now();
    const results = await session.run(feed());
    const seconds = (performance.now() - before) / 1000;
    const outputs = [];
    for (const name of session.outputNames) {
      const tensor = results[name];
      const data = await tensor.getData();
      const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
      outputs.push({ name, dtype: tensor.type, shape: [...tensor.dims], bytes });
      tensor.dispose();
    }
    const warm = [];
    const end = performance.now() + again.milliseconds;
    while (warm.length < again.most && (warm.length === 0 || performance.now() < end)) {
      const start = performance.now();
      const more = await session.run(feed());
      warm.push((performance.now() - start) / 1000);
      for (const tensor of Object.values(more)) tensor.dispose();
    }
    warm.sort((a, b) => a - b);
    return { answer: "outputs", outputs, seconds, warm_seconds: warm.length ? warm[warm.length >> 1] : null };
  },
};

/** How many nodes each provider took, from the log of a session; null where it does not say. */
function placement(lines) {
  const found = new Map();
  for (const line of lines) {
    const said = /placed on \[(\w+)\]\. Number of nodes: (\d+)/.exec(line);
    if (said) found.set(said[1], Number(said[2]));
  }
  return found.size ? [...found].map(([provider, nodes]) => ({ provider, nodes })).sort((a, b) => (a.provider < b.provider ? -1 : 1)) : null;
}

self.onmessage = async ({ data: { id, act, ...given } }) => {
  let reply;
  try {
    reply = await acts[act](given);
  } catch (err) {
    const error = String(err?.message ?? err);
    reply = { answer: /ERROR_CODE: 2\b/.test(error) ? "invalid-argument" : "error", error };
  }
  self.postMessage({ id, ...reply });
};
