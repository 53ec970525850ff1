// <readtorch-trace>: finds its document, shows one trace or two, follows links and the page's theme.

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
      if (this.wanted() !== null) start();
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

  /** The path of a step of this trace in the address: empty for the trace as a whole, null for another one. */
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
    if (!path) {
      this.scrollIntoView({ block: "start" });
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
