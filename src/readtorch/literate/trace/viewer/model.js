/**
 * The document read into arrays by event, frames and steps (decode.py does the same in Python), and the ways to move.
 *
 * @typedef {{number: number, code: number, parent: number, lane: number, depth: number, begin: number, end: number,
 *   module: number, hook: string, left: string, result: number, name: string, file: number, first: number,
 *   events: number[], children: number[]}} Frame
 * @typedef {{event: number, kind: string, name: string, inputs: number[], outputs: number[], took: number}} Operator
 */

const LEAVES = "RYE";

class Model {
  /** @param {any} doc */
  constructor(doc) {
    if (!doc || !String(doc.schema).startsWith("readtorch-trace/1")) {
      throw new Error(`this viewer reads readtorch-trace/1, not ${doc && doc.schema}`);
    }
    this.doc = doc;
    this.count = doc.events.count;
    this.kinds = doc.events.kinds;
    this.time = new Float64Array(this.count);
    this.lane = new Int32Array(this.count);
    this.frame = new Int32Array(this.count).fill(-1);
    this.line = new Int32Array(this.count);
    /** Whether the lines that ran are in the document; without them `line` is where a frame's function begins. */
    this.hasLines = doc.meta.layers.includes("lines");
    this.detail = new Int32Array(this.count).fill(-1);
    /** @type {Frame[]} */
    this.frames = [];
    /** @type {Operator[]} */
    this.operators = [];
    /** The value of each S event: @type {number[]} */
    this.setValues = [];
    /** Steps by lane: @type {number[][]} */
    this.steps = doc.lanes.map(() => []);
    /** Outermost calls: @type {number[]} */
    this.roots = [];
    this.read();
  }

  read() {
    const { doc } = this;
    const columns = doc.events;
    const at = {};
    const take = (name) => columns[name][(at[name] = (at[name] ?? -1) + 1)];
    const pairs = (list = []) => {
      const map = new Map();
      for (let i = 0; i < list.length; i += 2) map.set(list[i], list[i + 1]);
      return map;
    };
    const modules = pairs(columns.module);
    const hooks = pairs(columns.hook);
    const numbered = pairs(columns.frame);
    const generators = new Map();
    const stacks = doc.lanes.map(() => []);
    const lines = [];
    const runs = columns.lane || [];
    let newest = -1;
    for (const distance of columns.value || []) {
      this.setValues.push(newest - distance);
      newest = Math.max(newest, newest - distance);
    }
    let now = 0;
    let sets = 0;
    let run = 0;
    let left = runs[1];
    for (let event = 0; event < this.count; event++) {
      if (left-- === 0) {
        run += 2;
        left = runs[run + 1] - 1;
      }
      const lane = runs[run];
      const kind = this.kinds[event];
      const stack = stacks[lane];
      if (kind !== "S" && kind !== "L") now += take("time");
      this.lane[event] = lane;
      this.time[event] = now;
      if (kind === "C") {
        const number = this.frames.length;
        const parent = stack.length ? stack[stack.length - 1] : -1;
        const code = take("call");
        const [name, file, first] = doc.code[code];
        this.frames.push({
          number, code, parent, lane, file, first, begin: event, end: this.count - 1, left: "", result: -1,
          depth: stack.length, module: modules.get(number) ?? -1, hook: doc.strings[hooks.get(number)] || "",
          name: doc.strings[name], events: [], children: [],
        });
        (parent < 0 ? this.roots : this.frames[parent].children).push(number);
        if (numbered.has(number)) generators.set(numbered.get(number), number);
        lines[number] = first;
        stack.push(number);
      } else if (kind === "G") {
        stack.push(generators.get(take("resume")));
      }
      const number = stack.length ? stack[stack.length - 1] : -1;
      const frame = this.frames[number];
      if (kind === "L") lines[number] += take("line");
      else if (kind === "S") this.detail[event] = sets++;
      else if (LEAVES.includes(kind)) {
        const value = take("leave") - 1;
        this.detail[event] = value;
        if (kind !== "Y") Object.assign(frame, { end: event, left: kind, result: value });
        stack.pop();
      } else if (kind === "O" || kind === "N") {
        this.detail[event] = this.operators.length;
        this.operators.push({
          event, kind, name: doc.strings[take("op")], inputs: take("inputs"), outputs: take("outputs"), took: take("took"),
        });
      } else if (kind === "M") this.detail[event] = take("mark");
      this.frame[event] = number;
      this.line[event] = frame ? lines[number] : 0;
      if (frame) frame.events.push(event);
      if (kind !== "S" && kind !== "A") this.steps[lane].push(event);
    }
    for (const span of doc.spans) this.steps[span[0]].push(span[4]); // a stream's steps are those that launched its work
  }

  /** Position of `event` among its lane's steps; of the last step before it, if it is none. */
  position(event) {
    const steps = this.steps[this.lane[event]];
    let low = 0;
    let high = steps.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (steps[middle] <= event) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The step `distance` further in the same lane. */
  move(event, distance) {
    const steps = this.steps[this.lane[event]];
    return steps[Math.max(0, Math.min(steps.length - 1, this.position(event) + distance))];
  }

  /** The next step that satisfies `wanted`, in the direction of `sign`; undefined if there is none. */
  seek(event, sign, wanted) {
    const steps = this.steps[this.lane[event]];
    for (let i = this.position(event) + sign; i >= 0 && i < steps.length; i += sign) {
      if (wanted(steps[i])) return steps[i];
    }
    return undefined;
  }

  /** The next step of this call or of a caller. */
  over(event) {
    const here = this.frame[event];
    return this.seek(event, 1, (next) => this.holds(this.frame[next], here)) ?? this.move(event, 1e9);
  }

  /** The next step after this call has ended. */
  out(event) {
    const here = this.frame[event];
    const wanted = (next) => this.frame[next] !== here && this.holds(this.frame[next], here);
    return this.seek(event, 1, wanted) ?? this.move(event, 1e9);
  }

  /** Whether frame `outer` is `inner` or one of its callers (-1 holds everything). */
  holds(outer, inner) {
    for (let f = inner; f >= 0; f = this.frames[f].parent) if (f === outer) return true;
    return outer < 0;
  }

  /** Calls around `event`, outermost first. @returns {Frame[]} */
  stack(event) {
    const found = [];
    for (let f = this.frame[event]; f >= 0; f = this.frames[f].parent) found.unshift(this.frames[f]);
    return found;
  }

  /** [name, value index, changed by what ran last] of the running call. */
  variables(event) {
    const frame = this.frames[this.frame[event]];
    if (!frame) return [];
    let limit = event;
    while (this.kinds[event] === "C" && this.kinds[limit + 1] === "S") limit++;
    const { name } = this.doc.events;
    const found = new Map();
    let fresh = 0;
    let moved = false;
    for (const at of frame.events) {
      if (at > limit) break;
      if (this.kinds[at] === "S") found.set(this.doc.strings[name[this.detail[at]]], [this.setValues[this.detail[at]], at]);
      else if (at < event && this.kinds[at] !== "A") {
        fresh = at;
        moved ||= this.kinds[at] === "L";
      }
    }
    return [...found]
      .filter(([, [index]]) => this.doc.values[index][0] !== "u")
      .map(([key, [index, at]]) => [key, index, moved && at > fresh]);
  }

  /** The chapter cell that `line` of `file` comes from. @returns {{path: string, id: string, line: number} | null} */
  cell(file, line) {
    for (const [f, first, last, path, id, start] of this.doc.cells) {
      if (f === file && first <= line && line <= last) {
        return { path: this.doc.strings[path], id: this.doc.strings[id], line: start + line - first };
      }
    }
    return null;
  }

  // A step by call path, which survives re-recording: caller/called[2]:+3~2 is the second time that the fourth line of the
  // second call of `called` is about to run.

  pathOf(event) {
    const here = this.frames[this.frame[event]];
    const lane = this.lane[event];
    const parts = this.stack(event).map((frame) => {
      const same = this.siblings(frame).filter((n) => this.frames[n].name === frame.name);
      const turn = same.indexOf(frame.number) + 1;
      return encodeURIComponent(frame.name) + (turn > 1 ? `[${turn}]` : "");
    });
    const what = this.label(event);
    const among = here ? here.events : this.steps[lane].filter((at) => this.frame[at] < 0);
    const turn = among.filter((at) => at <= event && this.label(at) === what).length;
    const place = what === "call" ? "" : `:${encodeURIComponent(what)}${turn > 1 ? `~${turn}` : ""}`;
    return (lane ? `~${encodeURIComponent(this.doc.lanes[lane].name)}/` : "") + parts.join("/") + place;
  }

  /** What kind of moment within its call `event` is. */
  label(event) {
    const kind = this.kinds[event];
    const frame = this.frames[this.frame[event]];
    if (kind === "L") return `+${this.line[event] - frame.first}`;
    if (kind === "O" || kind === "N") return this.operators[this.detail[event]].name;
    return { C: "call", R: "return", E: "raise", Y: "yield", G: "resume", M: "mark" }[kind] || "";
  }

  siblings(frame) {
    return frame.parent < 0 ? this.roots.filter((n) => this.frames[n].lane === frame.lane) : this.frames[frame.parent].children;
  }

  /** {event, exact} that a path leads to: as far as it can be followed; null if it cannot be at all. */
  resolve(path) {
    const [, laneName, rest] = /^(?:~([^/]*)\/?)?(.*)$/.exec(path);
    const named = laneName === undefined ? 0 : this.doc.lanes.findIndex((l) => l.name === decodeURIComponent(laneName));
    const lane = Math.max(0, named);
    const [calls, place] = rest.split(":");
    let frame = null;
    let exact = named >= 0;
    for (const part of calls ? calls.split("/") : []) {
      const [, name, turn] = /^(.*?)(?:\[(\d+)\])?$/.exec(part);
      const among = frame ? frame.children : this.roots.filter((n) => this.frames[n].lane === lane);
      const same = among.filter((n) => this.frames[n].name === decodeURIComponent(name));
      const next = same[Math.min(same.length, Number(turn || 1)) - 1];
      exact &&= same.length >= Number(turn || 1);
      if (next === undefined) break;
      frame = this.frames[next];
    }
    const events = frame ? frame.events : this.steps[lane].filter((at) => this.frame[at] < 0);
    if (!place) return frame ? { event: frame.begin, exact } : null;
    const [what, turn] = decodeURIComponent(place).split("~");
    const hits = events.filter((at) => this.label(at) === what);
    const hit = hits[Math.min(hits.length, Number(turn || 1)) - 1];
    if (hit !== undefined && exact) return { event: hit, exact: hits.length >= Number(turn || 1) };
    return frame ? { event: frame.begin, exact: false } : null;
  }
}
