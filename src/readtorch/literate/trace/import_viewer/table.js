// The modules of one run or two as a table: as a tree in order, by self time, or those of both.

const MOST = 400;

/** A name that a narrow column breaks behind a dot or an underscore, not inside a word. */
function breakable(name) {
  return name.split(/(?<=[._])(?=[^._])/).flatMap((piece, i) => (i ? [make("wbr"), piece] : [piece]));
}

class ImportTable {
  /** @param {Run[]} runs @param {(run: number, index: number) => void} pick */
  constructor(runs, pick) {
    this.runs = runs;
    this.pick = pick;
    this.mode = runs.length > 1 ? "both" : "order";
    this.word = "";
    this.chosen = [0, -1];
    this.open = new Set();
    const [run] = runs;
    for (const node of run.nodes) if (run.nodes.length <= 40 || (node.depth < 1 && run.roots.length < 3)) this.open.add(node.index);
    this.body = make("tbody");
    this.head = make("thead");
    this.note = make("caption");
    this.element = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Modules" }, make("table", {}, this.note, this.head, this.body));
    this.draw();
  }

  modes() {
    const [run] = this.runs;
    const later = Object.keys(run.doc.later).length > 0;
    const two = this.runs.length > 1 ? [["both", "Its own modules, in PyTorch's order"], ["shared", "All modules of both"]] : [];
    const single = this.runs.length > 1 ? [] : [["order", "In order"], ["self", "By self time"], ["asked", "Asked for inside functions"]];
    return [...two, ...single, ...(later && !two.length ? [["later", "Left for later"]] : [])];
  }

  draw() {
    const rows = { order: () => this.tree(), self: () => this.flat((a, b) => b.self - a.self), asked: () => this.flat(null), both: () => this.both(true), shared: () => this.both(false), later: () => this.later() }[this.mode]();
    const held = this.element.getRootNode().activeElement;
    const from = held && held.closest("tbody tr");
    this.body.replaceChildren(...rows.slice(0, MOST));
    const to = from && rows.find((row) => row.dataset.at === from.dataset.at);
    if (to && to.isConnected) (to.querySelector(`.${held.className}`) || to.querySelector(".name")).focus({ preventScroll: true });
    this.note.textContent = rows.length > MOST ? `${rows.length} entries, of which ${MOST} are shown; find narrows them down.` : rows.length ? "" : "None.";
  }

  titles(...texts) {
    this.head.replaceChildren(make("tr", {}, ...texts.map((text, i) => make("th", { scope: "col", class: i ? "number" : null }, text))));
  }

  matches(node) {
    return !this.word || node.name.toLowerCase().includes(this.word);
  }

  tree() {
    this.titles("module", "with what it imports, ms", "itself, ms");
    const [run] = this.runs;
    if (this.word) return run.nodes.filter((n) => this.matches(n)).map((n) => this.row(0, n, 0));
    const found = [];
    const visit = (numbers, depth) => {
      for (const number of numbers) {
        const node = run.nodes[number];
        found.push(this.row(0, node, depth, node.children.length > 0));
        if (this.open.has(number)) visit(node.children, depth + 1);
      }
    };
    visit(run.roots, 0);
    return found;
  }

  flat(order) {
    this.titles("module", "with what it imports, ms", "itself, ms");
    const [run] = this.runs;
    const nodes = run.nodes.filter((n) => this.matches(n) && (order || n.asked));
    return (order ? nodes.sort(order).slice(0, this.word ? MOST : 60) : nodes).map((n) => this.row(0, n, 0));
  }

  row(side, node, depth, inner = false) {
    const run = this.runs[side];
    const toggle = make("button", { class: "toggle", type: "button", "aria-label": `show or hide what ${node.name} imports`, "aria-expanded": String(this.open.has(node.index)), onclick: (e) => {
      e.stopPropagation();
      if (!this.open.delete(node.index)) this.open.add(node.index);
      this.draw();
    } });
    const name = make("button", { class: "name", type: "button", onclick: () => this.pick(side, node.index) }, ...breakable(node.name));
    const tags = [
      node.kind !== "source" ? make("span", { class: "tag" }, node.kind) : "",
      node.asked ? make("span", { class: "tag asked" }, `in ${node.asked}()`) : "",
      node.error ? make("span", { class: "tag error" }, node.error) : "",
    ];
    const cell = make("td", {}, inner ? toggle : make("i", { class: "gap" }), name, ...tags);
    cell.style.paddingInlineStart = `${depth * 13 + 4}px`;
    const bar = make("td", { class: "number bar" }, ms(node.total));
    bar.style.setProperty("--share", `${Math.min(100, (100 * node.total) / run.total)}%`);
    return make("tr", { "data-at": `${side} ${node.index}`, "aria-current": this.chosen[0] === side && this.chosen[1] === node.index ? "true" : null }, cell, bar, make("td", { class: "number" }, ms(node.self)));
  }

  both(own) {
    const names = this.runs.map((run) => run.doc.name);
    this.titles("module", `${names[0]}: place`, "ms", `${names[1]}: place`, "ms");
    const ours = new Map(this.runs[0].nodes.map((n) => [upstream(n.name), n]).reverse());
    const rows = [];
    for (const theirs of this.runs[1].nodes) {
      const mine = ours.get(theirs.name);
      if (!mine || !this.matches(theirs) || (own && theirs.origin !== "t")) continue;
      const name = make("button", { class: "name", type: "button", onclick: () => this.pick(1, theirs.index) }, ...breakable(theirs.name));
      const cells = [mine.order, ms(mine.total), theirs.order, ms(theirs.total)].map((text) => make("td", { class: "number" }, String(text)));
      rows.push(make("tr", { "data-at": `1 ${theirs.index}`, "aria-current": this.chosen[0] === 1 && this.chosen[1] === theirs.index ? "true" : null }, make("td", {}, name), ...cells));
    }
    return rows;
  }

  later() {
    this.titles("package", "modules it has and did not load");
    const { later, lazy } = this.runs[0].doc;
    const own = new Set(lazy);
    return Object.entries(later).filter(([name, list]) => !this.word || name.includes(this.word) || list.some((n) => n.includes(this.word))).map(([name, list]) =>
      make("tr", {}, make("td", {}, make("code", {}, ...breakable(name)), own.has(name) ? make("span", { class: "tag asked" }, "__getattr__") : ""), make("td", { class: "words" }, list.join(", "))),
    );
  }
}
