// One trace on the page: controls, panes, and the step that all of them show.

const KEYS = {
  ArrowRight: "into",
  ArrowDown: "over",
  ArrowUp: "out",
  ArrowLeft: "back",
  Home: "first",
  End: "last",
};

/** One trace on the page. */
class View {
  /** @param {Model} model */
  constructor(model, { id, level, book, label }) {
    this.model = model;
    this.id = id;
    this.label = label;
    const go = (event) => this.go(event);
    this.timeline = new Timeline(model, go);
    this.tree = new Tree(model, go);
    this.source = new Source(model, go, (file, line) => this.pick(file, line), book);
    this.values = new Values(model);
    this.live = make("p", { class: "live", role: "status", "aria-live": "polite" });
    this.element = make("section", { class: "view" });
    this.element.append(this.header(level), this.toolbar(), this.timeline.element, this.panes(), this.footer());
    this.element.addEventListener("keydown", (e) => this.key(e));
    /** Told of every step: @type {(event: number) => void} */
    this.moved = () => {};
    this.event = this.model.steps[0][0] ?? 0;
  }

  header(level) {
    const { meta } = this.model.doc;
    const title = make(`h${level}`, {}, meta.title || "Recorded execution");
    const facts = [`${this.model.frames.length} calls`];
    if (this.model.operators.length) facts.push(`${this.model.operators.length} operators`);
    if (this.model.doc.lanes.length > 1) facts.push(`${this.model.doc.lanes.length} lanes`);
    const tag = this.label ? make("span", { class: "tag" }, this.label) : "";
    return make("header", {}, tag, title, make("span", { class: "facts" }, facts.join(" · ")));
  }

  button(name, keys, text, action) {
    const title = keys ? `${text} (${keys.map((k) => ({ ArrowRight: "→", ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←" })[k] || k).join(", ")})` : text;
    const attributes = { type: "button", title, "aria-label": text, "aria-keyshortcuts": keys && keys.join(" "), onclick: action };
    return make("button", attributes, icon(name));
  }

  toolbar() {
    const step = (name) => () => this.step(name);
    this.slider = make("input", { type: "range", min: 0, value: 0, "aria-label": "Step", oninput: () => this.slide() });
    this.counter = make("span", { class: "counter" });
    this.playing = this.button("play", [" "].map(() => "Space"), "Play", () => this.play());
    this.found = make("span", { class: "found" });
    this.search = make("input", {
      type: "search", placeholder: "find call, variable, operator, T3", "aria-label": "Find",
      oninput: () => this.find(this.search.value, 1, true), onkeydown: (e) => this.searchKey(e),
    });
    return make(
      "div",
      { class: "toolbar", role: "toolbar", "aria-label": "Step through the execution" },
      make(
        "span",
        { class: "group" },
        this.button("first", ["Home"], "First step", step("first")),
        this.button("back", ["ArrowLeft"], "Step back", step("back")),
        this.button("into", ["ArrowRight"], "Step into", step("into")),
        this.button("over", ["ArrowDown"], "Step over", step("over")),
        this.button("out", ["ArrowUp"], "Step out", step("out")),
        this.button("last", ["End"], "Last step", step("last")),
        this.playing,
      ),
      this.slider,
      this.counter,
      make("span", { class: "finder" }, this.search, this.found),
      make(
        "span",
        { class: "group" },
        this.id ? this.button("link", null, "Copy a link to this step", () => this.copyLink()) : "",
        this.button("axis", null, "Timeline by time or by order", () => this.toggleAxis()),
        this.button("save", null, "Download for Perfetto (Chrome trace)", () => download(chromeTrace(this.model), `${this.id || "trace"}.json`)),
      ),
    );
  }

  panes() {
    const calls = make("button", { type: "button", class: "tab", "aria-pressed": "true", onclick: () => this.listOperators(false) }, "Calls");
    const ops = make("button", { type: "button", class: "tab", "aria-pressed": "false", onclick: () => this.listOperators(true) }, "Operators");
    this.tabs = [calls, ops];
    const head = make("div", { class: "pane-head" }, calls, this.model.operators.length ? ops : "");
    return make(
      "div",
      { class: "panes" },
      make("div", { class: "pane calls" }, head, this.tree.element),
      this.source.element,
      this.values.element,
    );
  }

  footer() {
    const { meta } = this.model.doc;
    const limits = { events: "60,000 events", steps: "the steps asked for", bytes: "150 KB" };
    const notice = meta.truncated
      ? make("p", { class: "notice", role: "note" }, `The recording ended before the code did: limit of ${limits[meta.truncated] || meta.truncated}.`)
      : "";
    const when = String(meta.created).slice(0, 10);
    const facts = [`Python ${meta.python}`, `NumPy ${meta.numpy}`, meta.device, meta.recorder, `times by the ${meta.clock} clock, the recorder's included`, when];
    return make("footer", {}, notice, this.live, make("p", { class: "made" }, facts.filter(Boolean).join(" · ")));
  }

  listOperators(only) {
    this.tree.operatorsOnly = only;
    this.tabs.forEach((tab, index) => tab.setAttribute("aria-pressed", String(Boolean(index) === only)));
    this.tree.list();
    this.tree.select(this.event);
  }

  toggleAxis() {
    this.timeline.byTime = !this.timeline.byTime;
    this.timeline.draw();
  }

  step(name) {
    const { model, event } = this;
    const moves = {
      into: () => model.move(event, 1),
      back: () => model.move(event, -1),
      over: () => model.over(event),
      out: () => model.out(event),
      first: () => model.move(event, -1e9),
      last: () => model.move(event, 1e9),
    };
    this.go(moves[name]());
  }

  slide() {
    this.go(this.model.steps[this.model.lane[this.event]][Number(this.slider.value)]);
  }

  /** Show `event`; everything on the page follows. */
  go(event, quiet = false) {
    if (event === undefined) return;
    const { model } = this;
    this.event = event;
    const steps = model.steps[model.lane[event]];
    const position = model.position(event);
    this.slider.max = String(steps.length - 1);
    this.slider.value = String(position);
    this.slider.setAttribute("aria-valuetext", `step ${position + 1} of ${steps.length}`);
    this.counter.textContent = `${position + 1} / ${steps.length}`;
    this.timeline.place(event);
    this.tree.select(event);
    this.source.show(event);
    this.values.show(event);
    this.live.textContent = this.describe(event);
    if (!quiet) this.moved(event);
  }

  describe(event) {
    const changed = this.model
      .variables(event)
      .filter(([, , fresh]) => fresh)
      .slice(0, 3)
      .map(([name, index]) => `${name} is ${valueText(this.model.doc.values[index], this.model.doc.modules)}`);
    return `${sentence(this.model, event)}${changed.length ? `; ${changed.join(", ")}` : ""}.`;
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.key === "Tab") return;
    // The page around has shortcuts of its own (JupyterLab moves cells, the site changes pages).
    e.stopPropagation();
    if (e.target === this.search) return;
    const onSlider = e.target === this.slider;
    const name = KEYS[e.key];
    if (name && !(onSlider && !["ArrowUp", "ArrowDown"].includes(e.key))) this.step(name);
    else if (e.key === "n" || e.key === "p") this.hit(e.key === "n" ? 1 : -1);
    else if (e.key === " " && e.target.tagName !== "BUTTON") this.play();
    else if (e.key === "/") this.search.focus();
    else if (e.key === "[" || e.key === "]") this.otherLane(e.key === "]" ? 1 : -1);
    else return;
    e.preventDefault();
  }

  otherLane(direction) {
    const { length } = this.model.doc.lanes;
    this.timeline.toLane((this.model.lane[this.event] + direction + length) % length);
  }

  /** The next time that the current or the clicked line runs. */
  hit(sign) {
    const { model, event } = this;
    const frame = model.frames[model.frame[event]];
    const target = this.source.filter || (frame && { file: frame.file, line: model.line[event] });
    if (!target) return;
    const wanted = (at) =>
      model.kinds[at] === "L" && model.line[at] === target.line && model.frames[model.frame[at]].file === target.file;
    const next = model.seek(event, sign, wanted);
    if (next === undefined) this.live.textContent = `Line ${target.line} does not run ${sign > 0 ? "again" : "earlier"}.`;
    else this.go(next);
  }

  /** A click on a line: the next time it runs; a second click on it lets go. */
  pick(file, line) {
    const { filter } = this.source;
    if (filter && filter.file === file && filter.line === line) {
      this.source.filter = null;
      this.go(this.event);
      return;
    }
    this.source.filter = { file, line };
    const { model, event } = this;
    const wanted = (at) => model.kinds[at] === "L" && model.line[at] === line && model.frames[model.frame[at]].file === file;
    const here = this.model.frame[event];
    const inCall = (at) => wanted(at) && model.frame[at] === here;
    this.go(model.seek(event, 1, inCall) ?? model.seek(event, -1, inCall) ?? model.seek(event, 1, wanted) ?? model.seek(event, -1, wanted) ?? event);
  }

  searchKey(e) {
    if (e.key === "Enter") this.find(this.search.value, e.shiftKey ? -1 : 1, false);
    else if (e.key === "Escape") {
      this.search.value = "";
      this.found.textContent = "";
      this.element.querySelector(".code").focus();
    } else return;
    e.preventDefault();
  }

  /** Go to the next step whose call, module, operator, new variable or tensor is `text`. */
  find(text, sign, fromHere) {
    const wanted = text.trim().toLowerCase();
    this.found.textContent = "";
    if (!wanted) return;
    const test = this.matcher(wanted);
    const total = this.model.steps[this.model.lane[this.event]].filter(test).length;
    this.found.textContent = total ? `${total}` : "none";
    if (fromHere && test(this.event)) return;
    const next = this.model.seek(this.event, sign, test) ?? this.model.steps[this.model.lane[this.event]].filter(test).at(sign > 0 ? 0 : -1);
    this.go(next);
  }

  matcher(wanted) {
    const { model } = this;
    const { doc } = model;
    const tensor = /^t\d+$/.test(wanted) ? Number(wanted.slice(1)) : -1;
    const isTensor = (index) => doc.values[index][0] === "t" && doc.values[index][1] === tensor;
    return (event) => {
      const kind = model.kinds[event];
      const frame = model.frames[model.frame[event]];
      if (kind === "O" || kind === "N") {
        const op = model.operators[model.detail[event]];
        return tensor >= 0 ? op.outputs.some(isTensor) : op.name.toLowerCase().includes(wanted);
      }
      if (kind === "C" && tensor < 0) {
        const module = doc.modules[frame.module];
        return `${frame.name} ${module ? module[0] : ""} ${frame.hook}`.toLowerCase().includes(wanted);
      }
      if (kind !== "L") return false;
      return model.variables(event).some(([name, index, fresh]) => fresh && (tensor >= 0 ? isTensor(index) : name.toLowerCase() === wanted));
    };
  }

  play() {
    const stop = this.timer !== undefined;
    clearInterval(this.timer);
    this.timer = undefined;
    if (!stop) {
      const slow = matchMedia("(prefers-reduced-motion: reduce)").matches;
      this.timer = setInterval(() => {
        const next = this.model.move(this.event, 1);
        if (next === this.event || !this.element.isConnected) this.play();
        else this.go(next);
      }, slow ? 1500 : 600);
    }
    const text = stop ? "Play" : "Pause";
    this.playing.replaceChildren(icon(stop ? "play" : "pause"));
    this.playing.setAttribute("aria-label", text);
    this.playing.title = `${text} (Space)`;
  }

  permalink() {
    return `#rt=${encodeURIComponent(this.id)}@${this.model.pathOf(this.event)}`;
  }

  async copyLink() {
    const link = this.permalink();
    history.replaceState(history.state, "", link);
    try {
      await navigator.clipboard.writeText(location.href);
      this.live.textContent = "Link copied.";
    } catch {
      this.live.textContent = "The link is in the address bar.";
    }
  }
}
