// The Chrome trace event format (Perfetto, chrome://tracing), as chrome.py writes it.

function chromeTrace(model) {
  const { doc } = model;
  const events = [{ ph: "M", pid: 1, name: "process_name", args: { name: "readtorch" } }];
  doc.lanes.forEach(({ name }, lane) => events.push({ ph: "M", pid: 1, tid: lane + 1, name: "thread_name", args: { name } }));
  const stacks = doc.lanes.map(() => []);
  const words = (index) => valueText(doc.values[index], doc.modules);
  for (let event = 0; event < model.count; event++) {
    const kind = model.kinds[event];
    const lane = model.lane[event];
    const place = { pid: 1, tid: lane + 1, ts: model.time[event] };
    const frame = model.frames[model.frame[event]];
    if (kind === "C" || kind === "G") {
      stacks[lane].push(frame);
      const args = { file: doc.files[frame.file].path, line: frame.first };
      events.push({ ph: "B", ...place, name: frame.name, cat: "call", args });
    } else if (LEAVES.includes(kind)) {
      events.push({ ph: "E", ...place, name: stacks[lane].pop().name, cat: "call" });
    } else if (kind === "O" || kind === "N") {
      const { name, took, inputs, outputs } = model.operators[model.detail[event]];
      const args = { inputs: inputs.map(words), outputs: outputs.map(words) };
      const ts = Math.max(0, place.ts - took);
      events.push({ ph: "X", ...place, ts, dur: took, name, cat: kind === "O" ? "operator" : "autograd", args });
    }
  }
  const ts = model.count ? model.time[model.count - 1] : 0;
  stacks.forEach((stack, lane) => {
    for (const frame of stack.reverse()) events.push({ ph: "E", pid: 1, tid: lane + 1, ts, name: frame.name, cat: "call" });
  });
  return { traceEvents: events, displayTimeUnit: "ns", otherData: { title: doc.meta.title, recorder: doc.meta.recorder } };
}

/** Offer `data` as a file. */
function download(data, name) {
  const url = URL.createObjectURL(new Blob([JSON.stringify(data)], { type: "application/json" }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
