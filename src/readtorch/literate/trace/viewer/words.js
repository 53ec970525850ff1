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
  into: "M3 3v5h9M8.5 4.5 12 8l-3.500 3.500",
  over: "M8 2.500V13M3.500 8.500 8 13l4.500-4.500",
  out: "M8 13.500V3M3.500 7.500 8 3l4.500 4.500",
  last: "M12 3v10M3 3l6 5-6 5z",
  play: "M5 3l8 5-8 5z",
  pause: "M5.500 3v10M10.500 3v10",
  link: "M6.500 9.500l3-3M7 4.500 9 2.500a3 3 0 0 1 4.500 4.500l-2 2M9 11.500 7 13.500A3 3 0 0 1 2.500 9l2-2",
  save: "M8 2.500v8M4.500 7 8 10.500 11.500 7M3 13.500h10",
  axis: "M2 12.500h12M4 9.500h3M8 6.500h4M3 3.500h9",
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
    return `${kind === "O" ? "operator" : "backward"} ${op.name}: ${side(op.inputs)} → ${side(op.outputs)}`;
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

/** " on layer1.conv (Conv2d)", " as forward hook", or "". */
function ownerText(model, frame) {
  const module = model.doc.modules[frame.module];
  const owner = module ? ` on ${module[0] ? `${module[0]} (${module[1]})` : module[1]}` : "";
  return owner + (frame.hook ? ` as ${frame.hook.replace(/_/g, " ")}` : "");
}
