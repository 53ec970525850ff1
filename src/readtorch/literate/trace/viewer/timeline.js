// The strip of lanes: calls as bars by depth, operators as ticks below, a cursor at the current step. Drawn once per size.

const BAR = 7;
const ROWS = 9;
const TICKS = 6;
const LANE_GAP = 6;

/** The hue of a call by the floor of the package its file stands on. */
function hue(path) {
  const [root, floor = ""] = path.split("/");
  if (root === "torch") return 30;
  if (root !== "readtorch") return null;
  return { nn: 255, csrc: 195, aten: 150, c10: 110, autograd: 300, optim: 25, utils: 60 }[floor] ?? 285;
}

class Timeline {
  /** @param {Model} model @param {(event: number) => void} go */
  constructor(model, go) {
    this.model = model;
    this.byTime = false;
    this.go = go;
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.cursor = make("div", { class: "cursor" });
    this.names = make("div", { class: "lane-names" });
    this.strip = make("div", { class: "strip" }, this.canvas, this.cursor);
    this.element = make("div", { class: "timeline" }, this.names, this.strip);
    const depth = model.doc.lanes.map(() => 0);
    for (const frame of model.frames) depth[frame.lane] = Math.max(depth[frame.lane], Math.min(ROWS, frame.depth + 1));
    let top = 2;
    this.lanes = depth.map((rows) => {
      const height = Math.max(2, rows) * BAR + (model.operators.length ? TICKS : 0);
      const lane = { top, height };
      top += height + LANE_GAP;
      return lane;
    });
    this.height = top - LANE_GAP + 2;
    this.strip.style.height = `${this.height}px`;
    this.lanes.forEach((lane, index) => {
      const { name } = model.doc.lanes[index];
      const button = make("button", { class: "lane", title: `go to lane ${name}`, onclick: () => this.toLane(index) }, name);
      button.style.top = `${lane.top}px`;
      this.names.append(button);
    });
    this.names.hidden = this.lanes.length < 2;
    this.strip.addEventListener("pointerdown", (e) => this.drag(e));
    this.strip.addEventListener("pointermove", (e) => (e.buttons ? this.drag(e) : this.hover(e)));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.strip);
  }

  /** 0 … 1 */
  x(event) {
    const { model } = this;
    const last = model.count - 1;
    return this.byTime ? model.time[event] / (model.time[last] || 1) : event / (last || 1);
  }

  draw() {
    const width = this.strip.clientWidth;
    const scale = globalThis.devicePixelRatio || 1;
    if (!width) return;
    const { model, canvas } = this;
    canvas.width = width * scale;
    canvas.height = this.height * scale;
    const context = canvas.getContext("2d");
    const style = getComputedStyle(this.element);
    const dark = style.colorScheme === "dark";
    context.scale(scale, scale);
    context.fillStyle = style.getPropertyValue("--rt-soft");
    for (const lane of this.lanes) context.fillRect(0, lane.top, width, lane.height);
    for (const frame of model.frames) {
      if (frame.depth >= ROWS) continue;
      const tone = hue(model.doc.files[frame.file].path);
      const lightness = (dark ? 0.66 : 0.72) - 0.03 * (frame.depth % 3);
      context.fillStyle = tone === null ? `oklch(${lightness} 0.01 260)` : `oklch(${lightness} 0.1 ${tone})`;
      for (const [begin, end] of this.spans(frame)) {
        const x = this.x(begin) * width;
        const w = Math.max(0.6, this.x(end) * width - x - (width / model.count > 2 ? 0.6 : 0));
        context.fillRect(x, this.lanes[frame.lane].top + frame.depth * BAR, w, BAR - 1);
      }
    }
    for (const op of model.operators) {
      const lane = this.lanes[model.lane[op.event]];
      context.fillStyle = op.kind === "O" ? style.getPropertyValue("--rt-accent") : style.getPropertyValue("--rt-warm");
      context.fillRect(this.x(op.event) * width - 0.5, lane.top + lane.height - TICKS + 1, 1.4, TICKS - 1);
    }
    const last = model.time.at(-1) || 1;
    for (const [number, , begin, length, event] of model.doc.spans) {
      const lane = this.lanes[number];
      const x = this.byTime ? begin / last : this.x(event);
      context.fillRect(x * width, lane.top, Math.max(1, this.byTime && (length / last) * width), lane.height);
    }
    this.place(this.event ?? 0);
  }

  /** [first, last] event of every stretch in which the call was running. */
  spans(frame) {
    const { kinds } = this.model;
    if (!frame.events.some((event) => kinds[event] === "G")) return [[frame.begin, frame.end]];
    const found = [];
    for (const event of frame.events) {
      if ("CG".includes(kinds[event])) found.push([event, frame.end]);
      else if (LEAVES.includes(kinds[event])) found[found.length - 1][1] = event;
    }
    return found;
  }

  place(event) {
    this.event = event;
    const lane = this.lanes[this.model.lane[event]];
    this.cursor.style.transform = `translate(${this.x(event) * this.strip.clientWidth - 1}px, ${lane.top - 2}px)`;
    this.cursor.style.height = `${lane.height + 4}px`;
    [...this.names.children].forEach((button, index) =>
      button.setAttribute("aria-current", String(index === this.model.lane[event])),
    );
  }

  at(e) {
    const box = this.strip.getBoundingClientRect();
    const share = Math.max(0, Math.min(1, (e.clientX - box.left) / box.width));
    const y = e.clientY - box.top;
    const lane = Math.max(0, this.lanes.findLastIndex((l) => l.top - LANE_GAP / 2 <= y));
    const steps = this.model.steps[lane];
    let low = 0;
    let high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x(steps[middle]) < share) low = middle + 1;
      else high = middle;
    }
    return { event: steps[low], depth: Math.floor((y - this.lanes[lane].top) / BAR) };
  }

  drag(e) {
    const { event } = this.at(e);
    if (event !== undefined) this.go(event);
  }

  hover(e) {
    const { event, depth } = this.at(e);
    if (event === undefined) return;
    const calls = this.model.stack(event);
    const call = calls[Math.min(Math.max(0, depth), calls.length - 1)];
    this.strip.title = call ? call.name + ownerText(this.model, call) : "";
  }

  toLane(lane) {
    const steps = this.model.steps[lane];
    this.go(steps.find((step) => step >= this.event) ?? steps[steps.length - 1]);
  }
}
