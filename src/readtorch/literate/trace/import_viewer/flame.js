// The flame graph: time to the right, importers above what they were the first to import. A click zooms.

const STEP = 17;
const DEEP = 16;

class Flame {
  /** @param {Run} run @param {(index: number) => void} pick @param {(index: number) => void} point */
  constructor(run, pick, point) {
    this.run = run;
    this.zoom = -1;
    this.chosen = -1;
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.element = make("div", { class: "flame" }, this.canvas);
    this.canvas.addEventListener("click", (e) => this.at(e) >= 0 && pick(this.at(e)));
    this.canvas.addEventListener("pointermove", (e) => point(this.at(e)));
    this.canvas.addEventListener("pointerleave", () => point(-1));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  /** [begin, length, depth of the uppermost row] of what is in sight. */
  window() {
    const node = this.run.nodes[this.zoom];
    return node ? [node.begin, Math.max(1, node.total), node.depth] : [0, this.run.total, 0];
  }

  rows() {
    const [begin, length, top] = this.window();
    let depth = 1;
    for (const node of this.run.nodes) {
      if (node.begin >= begin && node.begin + node.total <= begin + length && node.total / length > 0.0015) depth = Math.max(depth, node.depth - top + 1);
    }
    return Math.min(DEEP, depth);
  }

  draw() {
    const width = this.element.clientWidth;
    if (!width) return;
    const scale = globalThis.devicePixelRatio || 1;
    const height = this.rows() * STEP + 1;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    const style = getComputedStyle(this.element);
    const dark = style.colorScheme === "dark";
    context.scale(scale, scale);
    context.font = `11px ${style.fontFamily}`;
    context.textBaseline = "middle";
    this.boxes = [];
    const [begin, length, top] = this.window();
    const zoomed = this.run.nodes[this.zoom];
    for (const node of this.run.nodes) {
      const row = node.depth - top;
      if (row < 0 || row >= DEEP) continue;
      const x = ((node.begin - begin) / length) * width;
      const w = (node.total / length) * width;
      if (x + w < 0.3 || x > width || w < 0.3 || (zoomed && row === 0 && node !== zoomed)) continue;
      const { hue, chroma } = tone(node);
      const light = (dark ? 0.46 : 0.84) + 0.02 * (node.index % 3);
      context.fillStyle = `oklch(${light} ${chroma} ${hue})`;
      context.fillRect(x, row * STEP, Math.max(0.5, w - 0.7), STEP - 1);
      if (node.index === this.chosen) {
        context.strokeStyle = style.getPropertyValue("--rt-ink");
        context.lineWidth = 1.5;
        context.strokeRect(x + 0.75, row * STEP + 0.75, Math.max(1, w - 2), STEP - 2.5);
      }
      this.boxes.push([x, w, row, node.index]);
      const left = Math.max(0, x);
      const room = Math.min(width, x + w) - left - 8;
      if (room < 24) continue;
      let text = node.origin === "t" && node.parent >= 0 ? node.name.replace(/^[^.]*(?=\.)/, "") : node.name;
      while (text.length > 2 && context.measureText(text).width > room) text = `${text.slice(0, -2)}…`;
      if (text.length < 3) continue;
      context.fillStyle = style.getPropertyValue("--rt-ink");
      context.fillText(text, left + 4, row * STEP + STEP / 2);
    }
  }

  at(e) {
    const box = this.canvas.getBoundingClientRect();
    const x = e.clientX - box.left;
    const row = Math.floor((e.clientY - box.top) / STEP);
    const found = (this.boxes || []).filter(([left, w, r]) => r === row && x >= left - 0.5 && x <= left + w + 0.5);
    return found.length ? found[found.length - 1][3] : -1;
  }

  show(zoom, chosen = this.chosen) {
    this.zoom = zoom;
    this.chosen = chosen;
    this.draw();
  }
}
