// Two traces aligned by upstream symbol and call path, as compare.py does it.

/** readtorch/nn/… and torch/nn/… answer to the same name. */
function symbolOf(model, frame) {
  const path = model.doc.files[frame.file].path.replace(/^readtorch\//, "torch/").replace(/^cell.*/, "cell");
  return `${path}#${frame.name}`;
}

/** Pairs of positions of a longest common subsequence. */
function common(a, b) {
  const pairs = [];
  let start = 0;
  let endA = a.length;
  let endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) pairs.push([start, start++]);
  const tail = [];
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) tail.unshift([--endA, --endB]);
  const rows = endA - start;
  const width = endB - start + 1;
  if (rows * width < 2e6) {
    const best = new Uint16Array((rows + 1) * width);
    for (let i = rows - 1; i >= 0; i--) {
      for (let j = width - 2; j >= 0; j--) {
        best[i * width + j] =
          a[start + i] === b[start + j]
            ? best[(i + 1) * width + j + 1] + 1
            : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
      }
    }
    for (let i = 0, j = 0; i < rows && j < width - 1; ) {
      if (a[start + i] === b[start + j]) pairs.push([start + i++, start + j++]);
      else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
      else j++;
    }
  }
  return pairs.concat(tail);
}

class Alignment {
  /** @param {Model} a @param {Model} b */
  constructor(a, b) {
    this.models = [a, b];
    this.symbols = this.models.map((model) => model.frames.map((frame) => symbolOf(model, frame)));
    const known = this.symbols.map((list) => new Set(list));
    this.shared = new Set([...known[0]].filter((symbol) => known[1].has(symbol)));
    /** By side: frame to frame of the other side. */
    this.partner = [new Map(), new Map()];
    /** {events: [a, b], why}, in the order of the calls. */
    this.differences = [];
    this.level(a.roots, b.roots, [0, 0]);
    this.differences.sort((x, y) => x.order - y.order);
  }

  /** The nearest calls below `numbers` that both sides know. */
  visible(side, numbers) {
    return numbers.flatMap((n) =>
      this.shared.has(this.symbols[side][n]) ? [n] : this.visible(side, this.models[side].frames[n].children),
    );
  }

  level(ours, theirs, around) {
    const lists = [this.visible(0, ours), this.visible(1, theirs)];
    const pairs = common(...lists.map((list, side) => list.map((n) => this.symbols[side][n])));
    const matched = [new Set(pairs.map(([i]) => i)), new Set(pairs.map(([, j]) => j))];
    const last = [...around];
    const position = [0, 0];
    const alone = (side, until) => {
      for (; position[side] < until; position[side]++) {
        const i = position[side];
        if (matched[side].has(i)) continue;
        const frame = this.models[side].frames[lists[side][i]];
        const events = [...last];
        events[side] = frame.begin;
        this.note(events, `only ${"AB"[side]} calls ${frame.name}`);
      }
    };
    for (const [i, j] of pairs) {
      alone(0, i);
      alone(1, j);
      position[0] = i + 1;
      position[1] = j + 1;
      const [m, n] = [lists[0][i], lists[1][j]];
      this.partner[0].set(m, n);
      this.partner[1].set(n, m);
      const frames = [this.models[0].frames[m], this.models[1].frames[n]];
      this.contrast(frames);
      this.level(frames[0].children, frames[1].children, [frames[0].begin, frames[1].begin]);
      last[0] = frames[0].end;
      last[1] = frames[1].end;
    }
    alone(0, lists[0].length);
    alone(1, lists[1].length);
  }

  /** Note the first thing in which two matched calls differ: operators, lines of the same text, or outcome. */
  contrast(frames) {
    const facts = frames.map((frame, side) => this.facts(side, frame));
    const length = Math.max(facts[0].length, facts[1].length);
    const texts = frames.map((frame, side) => this.text(side, frame));
    const sameText = texts[0] === texts[1];
    if (!sameText && texts[0] && texts[1]) {
      this.note(frames.map((frame) => frame.begin), `${frames[0].name} is written differently`);
      return;
    }
    let [i, j] = [0, 0];
    while (i < length || j < length) {
      if (!sameText) {
        while (facts[0][i] && facts[0][i].line) i++;
        while (facts[1][j] && facts[1][j].line) j++;
      }
      const [x, y] = [facts[0][i], facts[1][j]];
      if (!x && !y) return;
      if (!x || !y || x.text !== y.text) {
        this.note([x ? x.event : frames[0].end, y ? y.event : frames[1].end], `${x ? x.text : "nothing"} ≠ ${y ? y.text : "nothing"}`);
        return;
      }
      i++;
      j++;
    }
  }

  /** The source of a call's function: lines are only compared where it is the same. */
  text(side, frame) {
    const { excerpts } = this.models[side].doc.files[frame.file];
    return lineage(excerpts || [], frame.first).map(([, text]) => text).join("\n");
  }

  facts(side, frame) {
    const model = this.models[side];
    const { values, modules } = model.doc;
    const words = (index) => valueText(values[index], modules);
    return frame.events
      .filter((event) => "LONRE".includes(model.kinds[event]))
      .map((event) => {
        const kind = model.kinds[event];
        if (kind === "L") return { event, line: true, text: `line ${model.line[event] - frame.first + 1}` };
        if (kind === "O" || kind === "N") {
          const op = model.operators[model.detail[event]];
          return { event, text: `${op.name} ${op.inputs.map(words).join(", ")} → ${op.outputs.map(words).join(", ")}` };
        }
        const result = model.detail[event] >= 0 ? ` ${words(model.detail[event])}` : "";
        return { event, text: `${kind === "R" ? "returns" : "raises"}${result}` };
      });
  }

  note(events, why) {
    this.differences.push({ events, why, order: events[0] + events[1] });
  }

  /** The step of the other side that answers to `event` of `side`. */
  answer(side, event) {
    const here = this.models[side];
    const there = this.models[1 - side];
    for (let f = here.frame[event]; f >= 0; f = here.frames[f].parent) {
      const other = this.partner[side].get(f);
      if (other === undefined) continue;
      const [mine, theirs] = [here.frames[f], there.frames[other]];
      if (here.frame[event] === f) {
        const label = here.label(event);
        if (label === "call") return theirs.begin;
        if (here.kinds[event] !== "L" || this.text(side, mine) === this.text(1 - side, theirs)) {
          const turn = mine.events.filter((e) => e <= event && here.label(e) === label).length;
          const hit = theirs.events.filter((e) => there.label(e) === label)[turn - 1];
          if (hit !== undefined) return hit;
        }
      }
      const before = mine.children.filter((n) => here.frames[n].end < event && this.partner[side].has(n)).pop();
      if (before === undefined) return theirs.events.find((e) => there.kinds[e] === "L") ?? theirs.begin;
      return there.move(there.frames[this.partner[side].get(before)].end, 1);
    }
    return undefined;
  }
}
