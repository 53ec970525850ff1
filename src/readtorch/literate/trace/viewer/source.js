// The listing of the function that is running: what ran is marked, the current line stands out, new values stand beside the line
// that made them.

/** The excerpt that holds `line`, and those that go on with it after a docstring that was left out. */
function lineage(excerpts, line) {
  let first = excerpts.findIndex(([start, text]) => start <= line && line < start + text.split("\n").length);
  if (first < 0) return [];
  while (first > 0 && excerpts[first][2]) first--;
  let end = first + 1;
  while (end < excerpts.length && excerpts[end][2]) end++;
  return excerpts.slice(first, end);
}

class Source {
  /** @param {Model} model @param {(file: number, line: number) => void} pick a click on a line */
  constructor(model, go, pick, book) {
    this.model = model;
    this.go = go;
    this.pick = pick;
    this.book = book;
    this.place = make("span", { class: "place" });
    this.chapter = make("span", { class: "chapter" });
    this.head = make("div", { class: "pane-head" }, this.place, this.chapter);
    this.body = make("div", { class: "scroll code", tabindex: "0", role: "region", "aria-label": "Source" });
    this.callers = make("div", { class: "callers" });
    this.element = make("div", { class: "pane source" }, this.head, this.body, this.callers);
    this.listings = new Map();
    /** Line whose passes n and p visit: @type {{file: number, line: number} | null} */
    this.filter = null;
  }

  show(event) {
    const { model } = this;
    const frame = model.frames[model.frame[event]];
    if (!frame) {
      this.place.textContent = "";
      this.chapter.replaceChildren();
      this.callers.replaceChildren();
      this.body.replaceChildren(make("p", { class: "note" }, "Nothing of the code around this operator was recorded."));
      this.listing = null;
      return;
    }
    const known = model.kinds[event] === "C" || model.hasLines;
    const line = known && model.kinds[event] !== "C" ? model.line[event] : frame.first;
    const { path } = model.doc.files[frame.file];
    const at = known ? `:${line}` : ", lines were not recorded";
    this.place.replaceChildren(make("b", {}, path.split("/").pop()), ` ${path.includes("/") ? path : ""}${at}`);
    this.place.title = path;
    this.showChapter(frame.file, line);
    const listing = this.find(frame.file, line);
    if (listing !== this.listing) {
      this.body.replaceChildren(listing.element);
      this.listing = listing;
    }
    this.mark(listing, frame, event, line, known);
    this.showCallers(event);
  }

  /** The lines that the calls around were made from, innermost first. */
  showCallers(event) {
    const { model } = this;
    const calls = model.stack(event);
    const rows = [];
    for (let i = calls.length - 1; i > 0 && rows.length < 3; i--) {
      const at = model.seek(calls[i].begin, -1, (step) => model.frame[step] === calls[i - 1].number && model.kinds[step] === "L");
      if (at === undefined) continue;
      const text = this.text(calls[i - 1].file, model.line[at]);
      rows.push(
        make(
          "button",
          { type: "button", title: `go to ${calls[i - 1].name}, line ${model.line[at]}`, onclick: () => this.go(at) },
          make("span", { class: "from" }, calls[i - 1].name),
          make("code", {}, ...highlighted(text)[0]),
        ),
      );
    }
    this.callers.replaceChildren(...(rows.length ? [make("span", { class: "label" }, "called from"), ...rows] : []));
  }

  /** One line of a file, "" where it is not in the document. */
  text(file, line) {
    for (const [first, text] of this.model.doc.files[file].excerpts || []) {
      const lines = text.split("\n");
      if (first <= line && line < first + lines.length) return lines[line - first].trim();
    }
    return "";
  }

  showChapter(file, line) {
    const cell = this.model.cell(file, line);
    if (!cell) return this.chapter.replaceChildren();
    const part = cell.path.replace(/^chapters\//, "").replace(/\.py$/, "");
    const text = `${part}${cell.id ? ` · ${cell.id}` : ""}`;
    const link = this.book === null ? make("span", {}, text) : make("a", { href: `${this.book}${part}/index.html#${encodeURIComponent(cell.id)}` }, text);
    link.title = `${cell.path}:${cell.line}`;
    this.chapter.replaceChildren(link);
  }

  /** The excerpt of `file` that holds `line`, built once. */
  find(file, line) {
    const excerpts = this.model.doc.files[file].excerpts || [];
    const shown = lineage(excerpts, line);
    const key = `${file}/${shown.length ? shown[0][0] : "bare"}`;
    if (!this.listings.has(key)) this.listings.set(key, shown.length ? this.build(file, shown) : this.bare(file));
    return this.listings.get(key);
  }

  build(file, excerpts) {
    const rows = new Map();
    const element = make("div", { class: "listing" });
    for (const [first, text, goesOn] of excerpts) {
      if (goesOn) element.append(make("div", { class: "ln gap" }, make("span", { class: "no" }, "⋮")));
      this.lines(file, first, text, rows, element);
    }
    return { element, rows, marked: [] };
  }

  lines(file, first, text, rows, element) {
    highlighted(text).forEach((pieces, offset) => {
      const line = first + offset;
      const ghost = make("span", { class: "ghost" });
      const row = make(
        "div",
        { class: "ln", onclick: () => this.pick(file, line) },
        make("span", { class: "no" }, String(line)),
        make("code", {}, ...pieces),
        ghost,
      );
      rows.set(line, { row, ghost });
      element.append(row);
    });
  }

  /** For files whose text is not in the document: the numbers of the lines that ran. */
  bare(file) {
    const { model } = this;
    const lines = new Set();
    for (let event = 0; event < model.count; event++) {
      if (model.kinds[event] === "L" && model.frames[model.frame[event]].file === file) lines.add(model.line[event]);
    }
    const rows = new Map();
    const element = make("div", { class: "listing" });
    element.append(make("p", { class: "note" }, "The text of this file is not part of the trace; these lines of it ran."));
    for (const line of [...lines].sort((a, b) => a - b)) {
      const ghost = make("span", { class: "ghost" });
      const row = make("div", { class: "ln", onclick: () => this.pick(file, line) }, make("span", { class: "no" }, String(line)), ghost);
      rows.set(line, { row, ghost });
      element.append(row);
    }
    return { element, rows, marked: [] };
  }

  /** Without `known`, `line` is only where the function begins: it is brought into view, and no line stands out. */
  mark(listing, frame, event, line, known) {
    for (const { row, ghost } of listing.marked) {
      row.className = "ln";
      row.removeAttribute("aria-current");
      ghost.textContent = "";
    }
    const { model } = this;
    const { strings, values, modules } = model.doc;
    const { name } = model.doc.events;
    const touched = new Map();
    const news = new Map();
    let running = 0;
    for (const at of frame.events) {
      const kind = model.kinds[at];
      if (kind === "L") {
        running = model.line[at];
        touched.set(running, (touched.get(running) || 0) + 1);
        if (at <= event) news.set(running, new Map());
      } else if (kind === "S" && at <= event && running) {
        const described = values[model.setValues[model.detail[at]]];
        if (described[0] !== "u") news.get(running).set(strings[name[model.detail[at]]], valueText(described, modules));
      }
    }
    listing.marked = [];
    const update = (number, change) => {
      const entry = listing.rows.get(number);
      if (!entry) return;
      listing.marked.push(entry);
      change(entry);
    };
    for (const [number, times] of touched) {
      update(number, ({ row }) => {
        row.classList.add("ran");
        row.title = times > 1 ? `ran ${times} times in this call` : "";
      });
    }
    for (const [number, changes] of news) {
      const text = [...changes].slice(0, 3).map(([key, words]) => `${key}: ${words.length > 60 ? `${words.slice(0, 59)}…` : words}`);
      if (text.length) update(number, ({ ghost }) => (ghost.textContent = text.join("   ")));
    }
    if (this.filter && this.filter.file === frame.file) update(this.filter.line, ({ row }) => row.classList.add("picked"));
    update(line, ({ row }) => {
      if (!known) return this.reveal(row);
      row.classList.add("now", `now-${model.kinds[event]}`);
      row.setAttribute("aria-current", "step");
      this.reveal(row);
    });
  }

  /** Scroll the pane, never the page. */
  reveal(row) {
    const { body } = this;
    const top = row.offsetTop;
    if (top < body.scrollTop + 24 || top + row.offsetHeight > body.scrollTop + body.clientHeight - 24) {
      body.scrollTop = Math.max(0, top - body.clientHeight / 3);
    }
  }
}
