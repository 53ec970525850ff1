/* The book's pages. Everything here is an addition: without scripts the text, the code and the recorded runs are all there. */
(() => {
  "use strict";
  const own = document.currentScript.src;
  const asset = (name) => new URL(name, own).href;
  const root = new URL("../../", own).href;
  const page = document.querySelector(".rt-page");
  const scripts = new Map();

  /** Load a classic script once; works from a folder too, where fetch and modules do not. */
  function load(url) {
    if (!scripts.has(url)) {
      scripts.set(url, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = url;
        script.onload = resolve;
        script.onerror = () => reject(new Error(`could not load ${url}`));
        document.head.append(script);
      }));
    }
    return scripts.get(url);
  }

  function style(url) {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = url;
    document.head.append(link);
  }

  const readtorch = {
    /** Called by the scripts in whole/: fill every waiting "whole class" of that name. */
    whole(name, place, html) {
      for (const details of document.querySelectorAll(`.rt-whole[data-whole="${CSS.escape(name)}"]`)) {
        if (details.dataset.filled) continue;
        details.dataset.filled = "yes";
        const box = document.createElement("div");
        box.className = "rt-listing";
        box.innerHTML = html; // made by the weaver, every text in it escaped there
        for (const link of box.querySelectorAll('a[href^="~/"]')) link.href = root + link.getAttribute("href").slice(2);
        const caption = document.createElement("div");
        caption.textContent = place;
        details.append(caption, box);
      }
    },
    load, root, page,
  };
  window.readtorch = readtorch;

  // recorded runs: the viewer loads each trace when it comes near the viewport

  if (document.querySelector("readtorch-trace")) load(asset("trace.js"));
  if (document.querySelector("readtorch-imports")) load(asset("imports.js"));

  // whole classes and files

  document.addEventListener("toggle", (event) => {
    const { target } = event;
    if (target.open && target.classList?.contains("rt-whole")) load(`${root}whole/${target.dataset.whole}.js`);
  }, true);

  // a link to something inside a folded cell opens it

  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target?.closest("details")) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  reveal();

  // equations and diagrams, only where a page has them

  const equations = document.querySelectorAll(".arithmatex");
  if (equations.length) {
    style(asset("katex/katex.min.css"));
    load(asset("katex/katex.min.js")).then(() => {
      for (const element of equations) {
        const text = element.textContent.trim();
        const displayMode = text.startsWith("\\[");
        katex.render(text.slice(2, -2), element, { displayMode, throwOnError: false, strict: "ignore" });
      }
    });
  }

  const diagrams = [...document.querySelectorAll(".rt-mermaid")].map((element) => ({ element, text: element.textContent }));
  let drawn = 0;
  async function draw() {
    await Promise.all([load(asset("mermaid/mermaid.tiny.js")), document.fonts.ready]);
    const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
    mermaid.initialize({
      startOnLoad: false, securityLevel: "strict", theme: "base", fontFamily: getComputedStyle(document.querySelector(".md-typeset")).fontFamily,
      themeVariables: {
        darkMode: document.body.dataset.mdColorScheme === "slate",
        background: colour("--rt-paper"), primaryColor: colour("--rt-head-bg"), primaryTextColor: colour("--rt-ink"),
        primaryBorderColor: colour("--rt-faint"), edgeLabelBackground: colour("--rt-paper"), lineColor: colour("--rt-soft"), secondaryColor: colour("--rt-code-bg"),
        tertiaryColor: colour("--rt-code-bg"), noteBkgColor: colour("--rt-mark"), noteTextColor: colour("--rt-ink"), fontSize: "15px",
      },
    });
    for (const { element, text } of diagrams) {
      const { svg } = await mermaid.render(`rt-diagram-${drawn++}`, text);
      const box = document.createElement("div");
      box.className = "rt-mermaid rt-drawn";
      box.setAttribute("role", "img");
      box.setAttribute("aria-label", `Diagram: ${text.split("\n")[0]}`);
      box.innerHTML = svg;
      (element.rtBox ?? element).replaceWith(box);
      element.rtBox = box;
    }
  }
  if (diagrams.length) {
    draw();
    new MutationObserver(draw).observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
  }

  // copy buttons, and the shorter column of a row staying in view while the longer one scrolls by

  function tools(cell) {
    let box = cell.querySelector(":scope > .rt-tools");
    if (!box) {
      box = document.createElement("div");
      box.className = "rt-tools";
      cell.append(box);
    }
    return box;
  }
  readtorch.tool = (cell, label, title, act) => {
    const button = document.createElement("button");
    button.className = "rt-tool";
    button.type = "button";
    button.textContent = label;
    button.title = title;
    button.addEventListener("click", () => act(button));
    tools(cell).append(button);
    return button;
  };

  function codeOf(cell) {
    const copies = [...cell.querySelectorAll(":scope > .rt-listing pre, :scope > details > .rt-listing pre")].map((pre) => pre.cloneNode(true));
    for (const copy of copies) copy.querySelectorAll(".rt-dim").forEach((dim) => dim.remove());
    return copies.map((copy) => copy.textContent.replace(/^\n+|\n+$/g, "")).join("\n") + "\n";
  }
  for (const cell of document.querySelectorAll(".rt-cell:not(.rt-noted)")) {
    readtorch.tool(cell, "copy", "Copy this cell's code", async (button) => {
      await navigator.clipboard.writeText(codeOf(cell));
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  }

  for (const link of document.querySelectorAll(".rt-head a")) link.title = link.getAttribute("aria-label");

  const bar = () => document.querySelector(".md-header")?.offsetHeight ?? 0;
  function stick() {
    for (const element of document.querySelectorAll(".rt-row:not(.rt-sides) > *")) {
      const room = window.innerHeight - element.offsetHeight - 24;
      element.style.setProperty("--rt-top", `${Math.min(bar() + 16, room)}px`);
      element.classList.add("rt-stick");
    }
    for (const pre of document.querySelectorAll(".rt-listing > pre, .rt-out")) {
      if (pre.scrollWidth > pre.clientWidth) pre.tabIndex = 0; // a scrolling box must be reachable by keyboard
    }
  }
  if (page) {
    stick();
    new ResizeObserver(stick).observe(page);
  }

  if (document.querySelector('meta[name="readtorch-server"]')) load(asset("live.js"));
})();
