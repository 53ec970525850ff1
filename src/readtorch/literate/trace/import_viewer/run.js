// A recorded import read into nodes, and documents that stand in files of their own.

/** @typedef {{index: number, name: string, parent: number, begin: number, total: number, self: number, kind: string,
 *   origin: string, asked: string, error: string, depth: number, children: number[], order: number}} Node */

class Run {
  /** @param {any} doc one entry of `runs` */
  constructor(doc) {
    this.doc = doc;
    this.total = Math.max(1, doc.total);
    /** @type {Node[]} */
    this.nodes = doc.names.map((name, index) => ({
      index, name, parent: doc.parents[index], begin: doc.begins[index], total: doc.totals[index], self: 0,
      kind: doc.kinds[index], origin: doc.origins[index], asked: doc.asked[index] || "", error: doc.errors[index] || "",
      depth: 0, children: [], order: index + 1,
    }));
    this.roots = [];
    for (const node of this.nodes) {
      const above = this.nodes[node.parent];
      if (above) {
        node.depth = above.depth + 1;
        above.children.push(node.index);
      } else this.roots.push(node.index);
    }
    for (const node of this.nodes) {
      node.self = Math.max(0, node.total - node.children.reduce((sum, child) => sum + this.nodes[child].total, 0));
    }
    this.depth = this.nodes.reduce((most, node) => Math.max(most, node.depth), 0) + 1;
  }

  /** The modules on the way to `index`, outermost first. */
  path(index) {
    const found = [];
    for (let at = index; at >= 0; at = this.nodes[at].parent) found.unshift(at);
    return found;
  }
}

/** readtorch.nn and torch.nn answer to the same name. */
const upstream = (name) => name.replace(/^readtorch(?=\.|$)/, "torch");

/** Where the file of one of PyTorch's modules stands in its repository; "" for any other module. */
function sourceAddress(run, node) {
  const release = /^\d+\.\d+\.\d+/.exec(run.doc.meta.version);
  if (run.doc.name !== "torch" || node.origin !== "t" || node.kind !== "source" || node.error || !release) return "";
  const path = node.name.split(".").map(encodeURIComponent).join("/");
  const file = run.doc.packages.includes(node.index) ? `${path}/__init__.py` : `${path}.py`;
  return `https://github.com/pytorch/pytorch/blob/v${release[0]}/${file}`;
}

const ms = (us) => (us >= 99950 ? `${Math.round(us / 1000)}` : us >= 9950 ? (us / 1000).toFixed(1) : (us / 1000).toFixed(2));

/** Hue of a module by whose it is. */
function tone(node) {
  if (node.error) return { hue: 25, chroma: 0.17 };
  if (node.origin === "s") return { hue: 260, chroma: 0.012 };
  if (node.origin === "o") return { hue: 150, chroma: 0.07 };
  const floors = { nn: 255, csrc: 195, aten: 150, c10: 110, autograd: 300, optim: 25, utils: 60, _C: 195, distributed: 340, fx: 220, _dynamo: 320, _inductor: 340, testing: 90, ao: 275 };
  return { hue: floors[node.name.split(".")[1]] ?? 40, chroma: 0.1 };
}

/** id to document, and id to what waits for it. */
const loaded = new Map();
const waiting = new Map();

globalThis.readtorchImports = (id, doc) => {
  loaded.set(id, doc);
  for (const resolve of waiting.get(id) || []) resolve(doc);
  waiting.delete(id);
};

function loadImports(src) {
  const id = src.split("/").pop().replace(/\.js$/, "");
  if (loaded.has(id)) return Promise.resolve(loaded.get(id));
  return new Promise((resolve, reject) => {
    const first = !waiting.has(id);
    if (first) waiting.set(id, []);
    waiting.get(id).push(resolve);
    if (!first) return;
    const script = make("script", { src });
    script.addEventListener("error", () => reject(new Error(`${src} could not be loaded`)));
    document.head.append(script);
  });
}
