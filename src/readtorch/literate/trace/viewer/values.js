// What there is at a step: the operator or result, then the variables of the running call, the ones just changed tinted.

class Values {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.body = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values" });
    this.element = make("div", { class: "pane values" }, make("div", { class: "pane-head" }, make("b", {}, "Values")), this.body);
  }

  show(event) {
    const { model } = this;
    const { doc } = model;
    const kind = model.kinds[event];
    const found = [];
    if (kind === "O" || kind === "N") found.push(...this.operator(model.operators[model.detail[event]]));
    if (LEAVES.includes(kind) && model.detail[event] >= 0) {
      const verb = { R: "returns", Y: "yields", E: "raises" }[kind];
      found.push(this.row(verb, doc.values[model.detail[event]], "result"));
    }
    const variables = model.variables(event);
    for (const [name, index, changed] of variables) found.push(this.row(name, doc.values[index], changed ? "changed" : ""));
    if (!found.length) {
      const off = doc.meta.values === "no";
      found.push(make("p", { class: "note" }, off ? "Recorded without values." : "No variables yet."));
    }
    this.body.replaceChildren(...found);
  }

  operator(op) {
    const { values } = this.model.doc;
    const rows = [make("div", { class: `op-name leaf-${op.kind}` }, make("b", {}, op.name), op.took ? ` ${op.took} µs` : "")];
    op.inputs.forEach((index, at) => rows.push(this.row(op.inputs.length > 1 ? `in ${at + 1}` : "in", values[index], "")));
    op.outputs.forEach((index, at) => rows.push(this.row(op.outputs.length > 1 ? `out ${at + 1}` : "out", values[index], "result")));
    return rows;
  }

  row(name, value, state) {
    return make(
      "div",
      { class: `var ${state}` },
      make("span", { class: "key" }, name),
      valueNode(value, this.model.doc.modules),
      state === "changed" ? make("span", { class: "sr" }, " changed") : "",
    );
  }
}
