// Documents that stand in files of their own: traces/<id>.js calls readtorchTrace(id, document), which works on file:// too.

/** id to what waits for it. */
const waiting = new Map();
/** id to document. */
const loaded = new Map();

globalThis.readtorchTrace = (id, doc) => {
  loaded.set(id, doc);
  for (const resolve of waiting.get(id) || []) resolve(doc);
  waiting.delete(id);
};

/** @param {string} src @returns {Promise<any>} */
function loadTrace(src) {
  const id = src.split("/").pop().replace(/\.js$/, "");
  if (loaded.has(id)) return Promise.resolve(loaded.get(id));
  return new Promise((resolve, reject) => {
    const first = !waiting.has(id);
    if (first) waiting.set(id, []);
    waiting.get(id).push(resolve);
    if (!first) return;
    const script = make("script", { src });
    script.addEventListener("error", () => {
      waiting.delete(id);
      reject(new Error(`${src} could not be loaded`));
    });
    document.head.append(script);
  });
}
