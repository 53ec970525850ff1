// Small builders of elements, and values in words. Text from a trace enters a page through textContent alone.

/** An element with attributes, listeners (on…) and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const ICONS = {
  first: "M4 3v10M13 3 7 8l6 5z",
  back: "M13 8H4m4-4.5L3.5 8 8 12.5",
  into: "M3 3v5h9M8.5 4.5 12 8l-3.5 3.5",
  over: "M8 2.5V13M3.5 8.5 8 13l4.5-4.5",
  out: "M8 13.5V3M3.5 7.5 8 3l4.5 4.5",
  last: "M12 3v10M3 3l6 5-6 5z",
  play: "M5 3l8 5-8 5z",
  pause: "M5.5 3v10M10.5 3v10",
  link: "M6.5 9.5l3-3M7 4.5 9 2.5a3 3 0 0 1 4.5 4.5l-2 2M9 11.5 7 13.5A3 3 0 0 1 2.5 9l2-2",
  save: "M8 2.5v8M4.5 7 8 10.5 11.5 7M3 13.5h10",
  axis: "M2 12.5h12M4 9.5h3M8 6.5h4M3 3.5h9",
};

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** @param {number[]} shape */
const shapeText = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;

const hostDevice = (device) => device === "cpu" || device === "numpy";

/** A value in a few words. */
function valueText(value, modules = []) {
  const [kind, a, b] = value;
  switch (kind) {
    case "t": return `${value[3]} ${shapeText(value[4])}${hostDevice(value[5]) ? "" : ` on ${value[5]}`}`;
    case "z": return "None";
    case "b": return a ? "True" : "False";
    case "n": return b === "float" && Number.isInteger(a) ? `${a}.0` : String(a);
    case "s": return `'${a}'${b > a.length ? `… ${b} characters` : ""}`;
    case "y": return `${b} bytes`;
    case "c": return containerText(value, modules);
    case "m": return modules[a] ? `${modules[a][1]}${modules[a][0] ? ` ${modules[a][0]}` : ""}` : "module";
    case "e": return b ? `${a}: ${b}` : a;
    case "f": return `${a}()`;
    case "k": return `class ${a}`;
    case "o": return `‹${a.split(".").pop()}›`;
    default: return String(a);
  }
}

function containerText([, name, length, items], modules) {
  const [open, close] = { list: "[]", tuple: "()", dict: "{}", set: "{}" }[name] || [`${name}(`, ")"];
  if (!items.length) return length ? `${name} of ${length}` : `${open}${close}`;
  const one = (item) =>
    typeof item[0] === "string" ? valueText(item, modules) : `${valueText(item[0], modules)}: ${valueText(item[1], modules)}`;
  const more = length > items.length ? `, … ${length} in all` : name === "tuple" && length === 1 ? "," : "";
  return `${open}${items.map(one).join(", ")}${more}${close}`;
}

/** A value as it stands in the values pane: tensors by facts, others as text. */
function valueNode(value, modules) {
  if (value[0] !== "t") return make("span", { class: `v-${value[0]}` }, valueText(value, modules));
  const [, serial, version, dtype, shape, device, flags, stats, head] = value;
  const facts = make(
    "span",
    { class: "facts" },
    make("b", {}, dtype),
    make("span", {}, shapeText(shape)),
    device === "cpu" || device === "numpy" ? (device === "numpy" ? make("i", {}, "ndarray") : "") : make("i", { class: "dev" }, device),
    flags.includes("g") ? make("i", {}, "requires grad") : "",
    make("i", { class: "serial", title: "number of this tensor, version of its contents" }, `T${serial}${version ? `.${version}` : ""}`),
  );
  const box = make("span", { class: "tensor" }, facts);
  const size = shape.reduce((a, b) => a * b, 1);
  if (stats && size > 1) {
    const [low, high, mean, sampled] = stats;
    const pair = (name, number) => [make("i", {}, name), make("span", {}, String(number))];
    box.append(make("span", { class: "stats" }, ...pair(sampled ? "min ≈" : "min", low), ...pair("mean", mean), ...pair("max", high)));
  }
  if (head && head.length) {
    box.append(make("span", { class: "head" }, `${head.map((v) => (typeof v === "boolean" ? (v ? "True" : "False") : v)).join("  ")}${size > head.length ? "  …" : ""}`));
  }
  return box;
}

/** What happens at a step, as one sentence. */
function sentence(model, event) {
  const { doc } = model;
  const kind = model.kinds[event];
  const frame = model.frames[model.frame[event]];
  const where = frame ? `${frame.name}` : doc.lanes[model.lane[event]].name;
  const value = model.detail[event] >= 0 && LEAVES.includes(kind) ? valueText(doc.values[model.detail[event]], doc.modules) : "";
  if (kind === "O" || kind === "N") {
    const op = model.operators[model.detail[event]];
    const side = (list) => list.map((v) => valueText(doc.values[v], doc.modules)).join(", ");
    const spans = doc.spans.filter((span) => span[4] === event).map((span) => spanText(doc, span));
    return `${kind === "O" ? "operator" : "backward"} ${op.name}: ${side(op.inputs)} → ${[side(op.outputs), ...spans].join("; ")}`;
  }
  switch (kind) {
    case "C": return `${where} is called${ownerText(model, frame)}`;
    case "G": return `${where} resumes`;
    case "R": return value ? `${where} returns ${value}` : `${where} returns`;
    case "Y": return value ? `${where} yields ${value}` : `${where} yields`;
    case "E": return value ? `${where} is left by ${value}` : `${where} is left by an exception`;
    case "M": return doc.strings[model.detail[event]];
    default: return `${where}, line ${model.line[event]}`;
  }
}

/** A kernel or a copy on a stream. */
const spanText = (doc, [lane, name, , length, , detail]) =>
  `${doc.strings[name]} ${doc.strings[detail]} ${length} µs on ${doc.lanes[lane].name}`;

/** " on layer1.conv (Conv2d)", " as forward hook", or "". */
function ownerText(model, frame) {
  const module = model.doc.modules[frame.module];
  const owner = module ? ` on ${module[0] ? `${module[0]} (${module[1]})` : module[1]}` : "";
  return owner + (frame.hook ? ` as ${frame.hook.replace(/_/g, " ")}` : "");
}
