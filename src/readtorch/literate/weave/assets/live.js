/* The buttons that need `readtorch read`: run a recorded cell again, show the reader's own PyTorch source, open a cell in
   JupyterLab. Loaded only when the page was served by it; everything asked is asked of this very server. */
(() => {
  "use strict";
  const { page, tool } = window.readtorch;
  const xsrf = () => document.cookie.split("; ").find((c) => c.startsWith("_xsrf="))?.slice(6) ?? "";

  async function ask(method, path, body) {
    const response = await fetch(`/readtorch/${path}`, {
      method,
      credentials: "same-origin",
      headers: body ? { "Content-Type": "application/json", "X-XSRFToken": decodeURIComponent(xsrf()) } : {},
      body: body && JSON.stringify(body),
    });
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.error ?? `the server answered ${response.status}`);
    return answer;
  }

  function busy(button, words, work) {
    const label = button.textContent;
    button.disabled = true;
    button.textContent = words;
    return work().catch((error) => say(button, error.message)).finally(() => {
      button.disabled = false;
      button.textContent = label;
    });
  }

  function say(near, text) {
    const cell = near.closest(".rt-cell");
    cell.querySelector(".rt-said")?.remove();
    const line = document.createElement("p");
    line.className = "rt-said";
    line.setAttribute("role", "status");
    line.textContent = text;
    const form = near.closest("form"); // what it answers stands below it, not below the long run
    if (form) form.after(line);
    else cell.append(line);
  }

  // a recorded cell, run again

  function runForm(cell, parameters) {
    const form = document.createElement("form");
    form.className = "rt-run";
    const [least, most] = parameters.steps;
    const steps = Object.assign(document.createElement("input"), { type: "number", min: least, max: most, value: 2000, name: "steps", required: true });
    const values = Object.assign(document.createElement("input"), { type: "checkbox", name: "values" });
    const label = (text, input) => {
      const element = document.createElement("label");
      element.append(text, " ", input);
      return element;
    };
    const button = Object.assign(document.createElement("button"), { type: "submit", textContent: "Run it now" });
    form.append(label("at most", steps), "steps", label("with values", values), button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      busy(button, "running …", async () => {
        const { document: trace } = await ask("POST", "run", {
          part: page.dataset.part, cell: cell.id,
          parameters: { steps: steps.valueAsNumber, values: values.checked ? "summary" : "no" },
        });
        const viewer = cell.querySelector("readtorch-trace");
        viewer.document = trace;
        say(button, "This is your own machine's run, made just now.");
      });
    });
    return form;
  }

  // the reader's own PyTorch

  let leave = () => {}; // closes the open pane

  /** Beside our code, over what stands left of it; below it, where there is no room. */
  function place(pane, cell) {
    const room = cell.getBoundingClientRect().left;
    const beside = room > 26 * parseFloat(getComputedStyle(document.documentElement).fontSize);
    pane.classList.toggle("rt-below", !beside);
    pane.style.width = beside ? `calc(${room}px - 1.6rem)` : "";
    document.body.classList.toggle("rt-halved", !beside);
    return beside;
  }

  function showUpstream(symbol, answer, button) {
    leave();
    const cell = button.closest(".rt-cell");
    const pane = document.createElement("aside");
    pane.className = "rt-pane";
    pane.setAttribute("aria-label", `PyTorch source of ${symbol}`);
    const head = document.createElement("header");
    const close = Object.assign(document.createElement("button"), { type: "button", textContent: "close" });
    head.append(answer.heading ?? symbol, close);
    const note = document.createElement("p");
    const code = document.createElement("pre");
    code.tabIndex = 0;
    const link = Object.assign(document.createElement("a"), { href: answer.url, textContent: "the line on GitHub" });
    note.append(answer.note ? `${answer.note}. ` : "", link);
    code.className = "highlight";
    code.innerHTML = answer.html; // the server's highlighter, every character of the source escaped there
    pane.append(head, note, ...(answer.html ? [code] : []));
    const again = () => place(pane, cell);
    const escape = (event) => { if (event.key === "Escape") leave(); };
    leave = () => {
      leave = () => {};
      pane.remove();
      document.body.classList.remove("rt-halved");
      document.removeEventListener("keydown", escape);
      window.removeEventListener("resize", again);
      button.focus();
    };
    close.addEventListener("click", () => leave());
    document.addEventListener("keydown", escape);
    window.addEventListener("resize", again);
    document.body.append(pane);
    if (!again()) cell.scrollIntoView();
    close.focus({ preventScroll: true });
  }

  if (!page) return;
  for (const span of document.querySelectorAll(".rt-up")) {
    const link = span.querySelector("a");
    const path = /\/blob\/[^/]+\/([^#]+)/.exec(link.href)[1];
    if (!/\.(py|h|yaml)$/.test(path)) continue; // what an installed PyTorch carries
    const button = Object.assign(document.createElement("button"), { type: "button", className: "rt-show", textContent: "show mine" });
    button.title = "Show this symbol in the PyTorch installed here";
    button.addEventListener("click", () => busy(button, "reading …", async () => {
      const symbol = `${path}#${link.querySelector("code").textContent}`;
      showUpstream(symbol, await ask("GET", `upstream?symbol=${encodeURIComponent(symbol)}`), button);
    }));
    span.append(" ", button);
  }
  for (const cell of document.querySelectorAll(".rt-cell:not(.rt-noted)")) {
    tool(cell, "JupyterLab", "Open this cell in JupyterLab, to change and run it", (button) => {
      const tab = window.open("", "_blank"); // at once, or the browser takes it for an unwanted window
      busy(button, "starting …", async () => {
        try {
          const { url } = await ask("POST", "lab", { part: page.dataset.part, cell: Number(cell.dataset.cell) });
          tab.opener = null;
          tab.location = url;
        } catch (error) {
          tab.close();
          throw error;
        }
      });
    });
  }
  ask("GET", "status").then(({ runs, parameters }) => {
    const here = new Set(runs[page.dataset.part] ?? []);
    for (const cell of document.querySelectorAll(".rt-cell")) {
      if (here.has(cell.id) && cell.querySelector("readtorch-trace")) {
        cell.querySelector(".rt-trace").before(runForm(cell, parameters));
      }
    }
  });
})();
