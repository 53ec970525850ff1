// <readtorch-trace>: one or two traces with their controls.

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

class ReadtorchTrace extends HTMLElement {
  connectedCallback() {
    this.onhash = () => this.follow();
    addEventListener("hashchange", this.onhash);
    addEventListener("popstate", this.onhash);
    if (this.views) this.watchTheme();
    else if (!this.shadowRoot) this.begin();
  }

  /** A page that loads documents itself hands one over here. */
  set document(doc) {
    try {
      this.build([doc]);
    } catch (error) {
      this.fail(error);
    }
  }

  begin() {
    if (Object.hasOwn(this, "document")) {
      // set before this class was known
      const { document: doc } = this;
      delete this.document;
      this.document = doc;
      return;
    }
    const data = [...this.querySelectorAll('script[type="application/json"]')];
    const sources = ["src", "with"].map((name) => this.getAttribute(name)).filter(Boolean);
    const build = (docs) => this.build(docs);
    const fail = (error) => this.fail(error);
    if (data.length) {
      try {
        build(data.map((script) => JSON.parse(script.textContent)));
      } catch (error) {
        fail(error);
      }
    } else if (sources.length) {
      const start = () => Promise.all(sources.map(loadTrace)).then(build).catch(fail);
      if (this.wanted()) start();
      else {
        const observer = new IntersectionObserver(
          (entries) => {
            if (!entries.some((entry) => entry.isIntersecting)) return;
            observer.disconnect();
            start();
          },
          { rootMargin: "800px 0px" },
        );
        observer.observe(this);
        this.load = () => (observer.disconnect(), start());
      }
    }
  }

  disconnectedCallback() {
    removeEventListener("hashchange", this.onhash);
    removeEventListener("popstate", this.onhash);
    if (this.themes) this.themes.disconnect();
    this.themes = undefined;
  }

  /** The path of a step of this trace in the address, if there is one. */
  wanted() {
    const match = /^#rt=([^@]*)@(.*)$/.exec(location.hash);
    return match && this.id && decodeURIComponent(match[1]) === this.id ? match[2] : null;
  }

  follow() {
    const path = this.wanted();
    if (path === null) return;
    if (!this.views) {
      if (this.load) this.load();
      return;
    }
    const found = this.views[0].model.resolve(path);
    if (!found) {
      this.views[0].live.textContent = "The linked step is not in this recording.";
      return;
    }
    this.views[0].go(found.event);
    if (!found.exact) this.views[0].live.textContent = `The linked step is not in this recording; this is the nearest. ${this.views[0].live.textContent}`;
    this.scrollIntoView({ block: "start" });
  }

  build(docs) {
    const level = Math.min(6, Math.max(1, Number(this.getAttribute("level")) || 3));
    const book = this.getAttribute("book");
    const models = docs.slice(0, 2).map((doc) => new Model(doc));
    const root = this.shadowRoot || this.attachShadow({ mode: "open" });
    const sheet = document.createElement("style");
    sheet.textContent = STYLE;
    this.frame = make("div", { class: "frame" });
    this.views = models.map((model, side) => new View(model, { id: side ? "" : this.id, level, book, label: models.length > 1 ? "AB"[side] : "" }));
    if (models.length > 1) this.frame.append(this.comparison(models));
    const pair = make("div", { class: models.length > 1 ? "pair" : "single" }, ...this.views.map((view) => view.element));
    this.frame.append(pair);
    root.replaceChildren(sheet, this.frame);
    this.setAttribute("data-lm-suppress-shortcuts", "true");
    this.watchTheme();
    this.views.forEach((view, side) => {
      view.moved = (event) => this.moved(side, event);
      view.go(view.event, true);
    });
    this.follow();
  }

  comparison(models) {
    this.alignment = new Alignment(...models);
    const { differences } = this.alignment;
    models.forEach((model, side) => {
      for (const frame of model.frames) if (!this.alignment.partner[side].has(frame.number)) this.views[side].tree.marked.add(frame.number);
    });
    this.linked = true;
    const why = make("span", { class: "why", role: "status" }, differences.length ? "" : "No difference in calls, operators, lines or results.");
    let at = -1;
    const show = (index) => {
      at = (index + differences.length) % differences.length;
      const { events } = differences[at];
      this.views.forEach((view, side) => view.go(events[side], true));
      why.textContent = `${at + 1} of ${differences.length}: ${differences[at].why}`;
    };
    const button = (text, index) => make("button", { type: "button", disabled: !differences.length, onclick: () => show(index()) }, text);
    const link = make("input", { type: "checkbox", checked: true, onchange: () => (this.linked = link.checked) });
    return make(
      "div",
      { class: "compare", role: "group", "aria-label": "Comparison" },
      button("First difference", () => 0),
      button("Next", () => at + 1),
      button("Previous", () => Math.max(at, 0) - 1),
      make("label", {}, link, " step together"),
      why,
    );
  }

  moved(side, event) {
    if (this.alignment && this.linked) this.views[1 - side].go(this.alignment.answer(side, event), true);
    const { model } = this.views[side];
    const frame = model.frames[model.frame[event]];
    const cell = frame && model.cell(frame.file, model.line[event]);
    const detail = {
      trace: this.id, side, step: model.position(event), kind: model.kinds[event],
      name: frame ? frame.name : "", file: frame ? model.doc.files[frame.file].path : "", line: model.line[event],
      chapter: cell && cell.path, chapterLine: cell && cell.line, cell: cell && cell.id,
    };
    this.dispatchEvent(new CustomEvent("readtorch-step", { detail, bubbles: true, composed: true }));
  }

  /** Light or dark follows the page: the site's and JupyterLab's switches, else the system's. */
  watchTheme() {
    const follow = () => {
      const style = getComputedStyle(this);
      const named = ["--md-default-bg-color", "--jp-layout-color0"].some((name) => style.getPropertyValue(name).trim());
      const probe = make("span", { style: "color: var(--md-default-bg-color, var(--jp-layout-color0))" });
      this.shadowRoot.append(probe);
      const [r, g, b] = (getComputedStyle(probe).color.match(/[\d.]+/g) || []).map(Number);
      probe.remove();
      const dark = named ? r * 0.3 + g * 0.59 + b * 0.11 < 128 : matchMedia("(prefers-color-scheme: dark)").matches;
      this.frame.classList.toggle("dark", dark);
      for (const view of this.views) view.timeline.draw();
    };
    this.themes = new MutationObserver(follow);
    for (const node of [document.documentElement, document.body]) this.themes.observe(node, { attributes: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", follow);
    follow();
  }

  fail(error) {
    const root = this.shadowRoot || this.attachShadow({ mode: "open" });
    root.replaceChildren(make("p", {}, `This trace cannot be shown: ${error.message}`), make("slot"));
  }
}

customElements.define("readtorch-trace", ReadtorchTrace);
