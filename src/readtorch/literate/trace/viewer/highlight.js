// Just enough of Python's lexical grammar to set listings in colour.

const TOKEN = new RegExp(
  [
    "(?<string>[rbfuRBFU]{0,2}(?:\"\"\"[\\s\\S]*?(?:\"\"\"|$)|'''[\\s\\S]*?(?:'''|$)|\"(?:\\\\.|[^\"\\\\\\n])*\"?|'(?:\\\\.|[^'\\\\\\n])*'?))",
    "(?<comment>#[^\\n]*)",
    "(?<number>\\b(?:0[xXoObB][\\da-fA-F_]+|\\d[\\d_]*(?:\\.[\\d_]*)?(?:[eE][+-]?\\d+)?)\\b)",
    "(?<keyword>\\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\\b)",
    "(?<name>(?<=\\b(?:def|class)\\s+)\\w+|@[\\w.]+)",
    "(?<self>\\bself\\b)",
  ].join("|"),
  "g",
);

/** Lines of source as fragments of text and coloured spans. @returns {(string | HTMLElement)[][]} */
function highlighted(text) {
  const lines = [[]];
  const put = (piece, kind) => {
    piece.split("\n").forEach((part, index) => {
      if (index) lines.push([]);
      if (part) lines[lines.length - 1].push(kind ? make("span", { class: `s-${kind}` }, part) : part);
    });
  };
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    put(text.slice(end, match.index));
    put(match[0], Object.keys(match.groups).find((kind) => match.groups[kind] !== undefined));
    end = match.index + match[0].length;
  }
  put(text.slice(end));
  return lines;
}
