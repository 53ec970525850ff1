// <readtorch-imports>: one recorded import, or two side by side.

class ReadtorchImports extends HTMLElement {
  connectedCallback() {
    if (this.frame) this.watchTheme();
    else this.begin();
  }

  disconnectedCallback() {
    if (this.themes) this.themes.disconnect();
  }

  begin() {
    const data = this.querySelector('script[type="application/json"]');
    const src = this.getAttribute("src");
    const fail = (error) => this.fail(error);
    if (data) {
      try {
        this.build(JSON.parse(data.textContent));
      } catch (error) {
        fail(error);
      }
    } else if (src) {
      const observer = new IntersectionObserver(
        (entries) => {
          if (!entries.some((entry) => entry.isIntersecting)) return;
          observer.disconnect();
          loadImports(src).then((doc) => this.build(doc)).catch(fail);
        },
        { rootMargin: "800px 0px" },
      );
      observer.observe(this);
    }
  }

  build(doc) {
    if (!String(doc.schema).startsWith("readtorch-imports/1")) throw new Error(`this viewer reads readtorch-imports/1, not ${doc.schema}`);
    const root = this.shadowRoot || this.attachShadow({ mode: "open" });
    this.runs = doc.runs.slice(0, 2).map((run) => new Run(run));
    this.frame = make("div", { class: "frame" });
    this.flames = this.runs.map((run, side) => new Flame(run, (index) => this.pick(side, index, true), (index) => this.tell(side, index)));
    this.table = new ImportTable(this.runs, (side, index) => this.pick(side, index, false));
    this.lines = this.runs.map(() => make("p", { class: "line" }));
    this.live = make("p", { class: "sr", role: "status", "aria-live": "polite" });
    this.runs.forEach((run, side) => this.frame.append(this.header(run, side), this.flames[side].element, this.lines[side]));
    this.frame.append(this.toolbar(), this.table.element, this.footer(), this.live);
    const sheet = document.createElement("style");
    sheet.textContent = STYLE;
    root.replaceChildren(sheet, this.frame);
    this.runs.forEach((_, side) => this.tell(side, -1));
    this.frame.addEventListener("keydown", (e) => this.key(e));
    this.watchTheme();
  }

  header(run, side) {
    const level = Math.min(6, Math.max(1, Number(this.getAttribute("level")) || 3));
    const { doc } = run;
    const modules = run.nodes.filter((node) => !node.name.startsWith(".")).length;
    const facts = [`${modules} modules`, `${ms(run.total)} ms`, `Python ${doc.meta.python}`];
    if (doc.meta.version) facts.splice(2, 0, `version ${doc.meta.version}`);
    if (doc.outcome !== "imported") facts.push(`${doc.outcome}: ${doc.error}`);
    const touched = doc.meta.touched ? `, then ${doc.meta.touched}` : "";
    const out = make("button", { type: "button", hidden: true, onclick: () => this.pick(side, -1, true) }, "whole import");
    (this.outs ||= [])[side] = out;
    return make("header", {}, make(`h${level}`, {}, `import ${doc.name}${touched}`), make("span", { class: doc.outcome === "imported" ? "facts" : "facts bad" }, facts.join(" · ")), out);
  }

  toolbar() {
    const modes = this.table.modes();
    const select = make("select", { "aria-label": "Show", onchange: () => {
      this.table.mode = select.value;
      this.table.draw();
    } }, ...modes.map(([value, text]) => make("option", { value }, text)));
    const search = make("input", { type: "search", placeholder: "find a module", "aria-label": "Find a module", oninput: () => {
      this.table.word = search.value.trim().toLowerCase();
      this.table.draw();
    } });
    return make("div", { class: "toolbar" }, modes.length > 1 ? select : make("span", { class: "facts" }, modes[0][1]), search);
  }

  footer() {
    const notes = this.runs.map((run) => run.doc.provenance).filter(Boolean);
    const keys = [["t", "its own modules"], ["o", "other packages"], ["s", "standard library"]];
    const legend = keys.map(([origin, text]) => {
      const { hue, chroma } = tone({ name: "", origin, error: "" });
      const dot = make("i", { class: "dot" });
      dot.style.background = `oklch(0.72 ${chroma} ${hue})`;
      return make("span", {}, dot, text);
    });
    return make("footer", {}, make("span", { class: "legend" }, ...legend), ...notes.map((text) => make("span", {}, text)));
  }

  /** Point at a module: its sentence below the graph. */
  tell(side, index) {
    const run = this.runs[side];
    const node = run.nodes[index >= 0 ? index : this.flames[side].chosen];
    if (!node) {
      this.lines[side].textContent = `${run.doc.before} modules had been loaded by the interpreter itself. A click on a bar zooms in.`;
      return;
    }
    const parent = run.nodes[node.parent];
    const by = parent ? ` for ${parent.name}` : "";
    const asked = node.asked ? `, asked for in ${node.asked}()` : "";
    const error = node.error ? `; left by ${node.error}` : "";
    const text = `${node.order}. ${node.name}${by}${asked}: ${ms(node.total)} ms, of which ${ms(node.self)} itself${error}`;
    const address = sourceAddress(run, node);
    this.lines[side].replaceChildren(text, ...(address ? [" · ", make("a", { href: address }, "source")] : []));
  }

  pick(side, index, fromFlame) {
    const flame = this.flames[side];
    const again = fromFlame && flame.zoom === index;
    const node = this.runs[side].nodes[index];
    flame.show(again ? -1 : node && node.children.length ? index : node && fromFlame ? flame.zoom : node ? node.parent : -1, index);
    this.outs[side].hidden = flame.zoom < 0;
    this.table.chosen = [side, index];
    if (node && this.runs.length === 1) for (const at of this.runs[side].path(node.parent)) this.table.open.add(at);
    if (this.runs.length > 1 && node) {
      const name = upstream(node.name);
      const other = this.runs[1 - side].nodes.find((n) => upstream(n.name) === name);
      if (other) {
        this.flames[1 - side].show(other.children.length ? other.index : other.parent, other.index);
        this.outs[1 - side].hidden = this.flames[1 - side].zoom < 0;
        this.tell(1 - side, other.index);
      }
    }
    this.table.draw();
    if (fromFlame) {
      const row = this.table.body.querySelector("[aria-current]");
      if (row) row.scrollIntoView({ block: "nearest" });
    }
    this.tell(side, index);
    this.live.textContent = this.lines[side].textContent;
  }

  /** Up and down move between rows, left and right close and open them, Escape shows the whole import. */
  key(e) {
    if (e.key === "Escape") this.runs.forEach((_, side) => this.pick(side, -1, true));
    const row = e.target.closest && e.target.closest("tbody tr");
    if (!row) return;
    const toggle = row.querySelector(".toggle");
    const open = toggle && toggle.getAttribute("aria-expanded") === "true";
    const place = [...this.table.body.rows].indexOf(row);
    const focus = (at) => {
      const target = this.table.body.rows[at];
      if (target) target.querySelector(".name").focus();
    };
    if (e.key === "ArrowDown") focus(place + 1);
    else if (e.key === "ArrowUp") focus(place - 1);
    else if (toggle && ((e.key === "ArrowRight" && !open) || (e.key === "ArrowLeft" && open))) {
      toggle.click();
      focus(place);
    } else return;
    e.preventDefault();
  }

  /** Light or dark follows the page, else the system. */
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
      for (const flame of this.flames) flame.draw();
    };
    this.themes = new MutationObserver(follow);
    for (const node of [document.documentElement, document.body]) this.themes.observe(node, { attributes: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", follow);
    follow();
  }

  fail(error) {
    const root = this.shadowRoot || this.attachShadow({ mode: "open" });
    root.replaceChildren(make("p", {}, `This recording cannot be shown: ${error.message}`), make("slot"));
  }
}

customElements.define("readtorch-imports", ReadtorchImports);
