// The call tree: calls with their operators as leaves, of which only the rows in sight exist in the document.

const ROW = 22;

class Tree {
  /** @param {Model} model @param {(event: number) => void} go */
  constructor(model, go) {
    this.model = model;
    this.go = go;
    this.operatorsOnly = false;
    /** Calls whose inside is shown. */
    this.open = new Set();
    /** Calls that the other trace of a comparison does not have. */
    this.marked = new Set();
    this.rows = make("div", { class: "rows", role: "list" });
    this.element = make("div", { class: "tree scroll", tabindex: "0", role: "region", "aria-label": "Calls" }, this.rows);
    this.element.addEventListener("scroll", () => this.draw());
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
    const all = model.frames.length + model.operators.length <= 60;
    for (const frame of model.frames) if (all || frame.depth < 1) this.open.add(frame.number);
    this.list();
  }

  /** Events of the visible rows, in order. */
  list() {
    const { model } = this;
    const found = [];
    for (let event = 0; event < model.count; event++) {
      const kind = model.kinds[event];
      if (kind === "O" || kind === "N") {
        if (this.operatorsOnly || this.visible(model.frame[event])) found.push(event);
      } else if (kind === "C" && !this.operatorsOnly && this.visible(model.frames[model.frame[event]].parent)) found.push(event);
    }
    this.events = found;
    this.rows.style.height = `${found.length * ROW}px`;
  }

  /** Whether the inside of `frame` is in sight. */
  visible(frame) {
    for (let f = frame; f >= 0; f = this.model.frames[f].parent) if (!this.open.has(f)) return false;
    return true;
  }

  toggle(frame) {
    if (!this.open.delete(frame)) this.open.add(frame);
    this.list();
    this.draw();
  }

  /** Show the row of the call or operator at `event`. */
  select(event) {
    const { model } = this;
    this.event = event;
    const frame = model.frame[event];
    const leaf = "ON".includes(model.kinds[event]);
    const inside = leaf ? frame : frame >= 0 ? model.frames[frame].parent : -1;
    if (!this.operatorsOnly && !this.visible(inside)) {
      for (let f = inside; f >= 0; f = model.frames[f].parent) this.open.add(f);
      this.list();
    }
    const target = leaf || frame < 0 ? event : model.frames[frame].begin;
    let index = this.events.indexOf(target);
    if (index < 0) index = this.events.findLastIndex((at) => at <= event);
    const top = index * ROW;
    const { scrollTop, clientHeight } = this.element;
    if (index >= 0 && (top < scrollTop || top + ROW > scrollTop + clientHeight)) {
      this.element.scrollTop = Math.max(0, top - clientHeight / 2);
    }
    this.selected = index;
    this.draw();
  }

  draw() {
    // deep inside, what lies far outside moves out of sight rather than the names
    const frame = this.model.frames[this.model.frame[this.event ?? 0]];
    this.shift = Math.max(0, (frame ? frame.depth : 0) * 12 - this.element.clientWidth * 0.25);
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - 4);
    const last = Math.min(this.events.length, first + Math.ceil((this.element.clientHeight || 400) / ROW) + 8);
    const rows = [];
    for (let index = first; index < last; index++) rows.push(this.row(index));
    this.rows.replaceChildren(...rows);
  }

  row(index) {
    const { model } = this;
    const event = this.events[index];
    const leaf = model.kinds[event] !== "C";
    const frame = model.frames[model.frame[event]];
    const depth = this.operatorsOnly ? 0 : leaf ? (frame ? frame.depth + 1 : 0) : frame.depth;
    const text = leaf ? this.operatorText(event) : this.callText(frame);
    const row = make(
      "div",
      {
        role: "listitem",
        class: `row${leaf ? ` leaf-${model.kinds[event]}` : ""}${!leaf && this.marked.has(frame.number) ? " alone" : ""}`,
        "aria-current": index === this.selected ? "step" : null,
        onclick: () => this.go(event),
      },
      ...text,
    );
    const inner = !leaf && (frame.children.length || frame.events.some((e) => "ON".includes(model.kinds[e])));
    const toggle = make("button", { class: "toggle", tabindex: "-1", "aria-label": "show or hide the calls inside" });
    if (inner) {
      toggle.setAttribute("aria-expanded", String(this.open.has(frame.number)));
      toggle.addEventListener("click", (e) => {
        e.stopPropagation();
        this.toggle(frame.number);
      });
    } else toggle.hidden = true;
    row.prepend(toggle);
    row.style.top = `${index * ROW}px`;
    row.style.paddingInlineStart = `${Math.max(0, depth * 12 - this.shift) + 18}px`;
    row.title = row.textContent;
    return row;
  }

  callText(frame) {
    const { doc } = this.model;
    const module = doc.modules[frame.module];
    const tone = hue(doc.files[frame.file].path);
    const dot = make("i", { class: "dot" });
    // Operators are closures made by a few functions: the operator's own name says more.
    const own = frame.name.includes("<locals>") && frame.events.findLast((event) => this.model.kinds[event] === "O");
    if (tone !== null) dot.style.background = `oklch(0.68 0.12 ${tone})`;
    return [
      dot,
      make("span", { class: "name" }, own ? this.model.operators[this.model.detail[own]].name : frame.name),
      own ? make("span", { class: "owner" }, frame.name) : "",
      module ? make("span", { class: "owner" }, module[0] || module[1]) : "",
      frame.hook ? make("span", { class: "hook" }, frame.hook.replace(/_/g, " ")) : "",
      frame.left === "E" ? make("span", { class: "raises" }, frame.result >= 0 ? doc.values[frame.result][1] : "raises") : "",
    ];
  }

  operatorText(event) {
    const { doc, operators, detail } = this.model;
    const op = operators[detail[event]];
    const shape = (index) => (doc.values[index][0] === "t" ? shapeText(doc.values[index][4]) : valueText(doc.values[index], doc.modules));
    return [
      make("span", { class: "name" }, op.name),
      make("span", { class: "owner" }, `${op.inputs.map(shape).join(" ")} → ${op.outputs.map(shape).join(" ")}`),
    ];
  }
}
