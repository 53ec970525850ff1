"""Where names are declared: scanners for the fact base, one for Python, one for C++ headers, one for operator YAML.

Each yields `Row`s in line order, with a depth for nesting. They read layout, not meaning: the C++ scanner follows braces and
statements at namespace and class level and never looks into a function body.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    kind: str
    start: int
    end: int
    depth: int = 0


def python_rows(text: str) -> list[Row]:
    """Classes, functions, assigned names and annotated attributes; instance attributes first set in `__init__`.

    Of a name defined several times, overloads and property setters give way to the definition itself, an assignment to a
    definition; of the branches of an `if` or `try` the first counts, unless it is for type checkers or Windows.
    """
    return list(_python_body(ast.parse(text).body, 0, in_class=False))


def _python_body(body: list[ast.stmt], depth: int, *, in_class: bool) -> Iterator[Row]:
    chosen: dict[str, tuple[Row, ast.stmt]] = {}
    for statement in _flat(body):
        if _is_overload(statement):
            continue
        start = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
        for name, kind in _bindings(statement, in_class=in_class):
            known = chosen.get(name)
            if known is None or (known[0].kind in _ASSIGNED and kind not in _ASSIGNED):
                chosen[name] = Row(name, kind, start, statement.end_lineno or start, depth), statement
    for row, statement in sorted(chosen.values(), key=lambda pair: (pair[0].start, pair[0].name)):
        yield row
        if isinstance(statement, ast.ClassDef):
            inner = list(_python_body(statement.body, depth + 1, in_class=True))
            yield from inner
            yield from _instance_attributes(statement, {r.name for r in inner if r.depth == depth + 1}, depth + 1)


_ASSIGNED = ("global", "attribute")


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If):
            aside = re.search("TYPE_CHECKING|WINDOWS|win32", ast.unparse(statement.test))
            branches = [statement.body, statement.orelse]
            for branch in reversed(branches) if aside else branches:
                yield from _flat(branch)
        elif isinstance(statement, ast.Try):
            yield from _flat(statement.body + [s for h in statement.handlers for s in h.body] + statement.orelse)
        elif isinstance(statement, ast.With):
            yield from _flat(statement.body)
        else:
            yield statement


def _bindings(statement: ast.stmt, *, in_class: bool) -> Iterator[tuple[str, str]]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name, "method" if in_class else "function"
    elif isinstance(statement, ast.ClassDef):
        yield statement.name, "class"
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, "attribute" if in_class else "global"


def _is_overload(statement: ast.stmt) -> bool:
    decorators = getattr(statement, "decorator_list", [])
    return any(ast.unparse(d).rpartition(".")[2] in ("overload", "_overload_method", "_overload") for d in decorators)


def _instance_attributes(owner: ast.ClassDef, taken: set[str], depth: int) -> Iterator[Row]:
    """`self.x = …` statements of `__init__`."""
    for method in owner.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__" and method.args.args:
            me = method.args.args[0].arg
            for node in ast.walk(method):
                if not isinstance(node, ast.Assign | ast.AnnAssign):
                    continue
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if (
                        isinstance(target, ast.Attribute)
                        and isinstance(target.value, ast.Name)
                        and target.value.id == me
                        and target.attr not in taken
                    ):
                        taken.add(target.attr)
                        yield Row(target.attr, "attribute", node.lineno, node.end_lineno or node.lineno, depth)


def yaml_rows(text: str) -> list[Row]:
    """Entries `- func: name(…)` or `- name: name(…)` of the operator tables; an entry ends above the next blank line."""
    rows: list[Row] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        match = re.match(r"- (?:func|name): ([\w.]+)\(", line)
        if match:
            end = number
            while end < len(lines) and lines[end].strip() and not lines[end].startswith("- "):
                end += 1
            rows.append(Row(match[1], "operator", number, end))
    return rows


def cpp_rows(text: str) -> list[Row]:
    """Namespaces' and classes' members in a header: types, functions, constants, aliases, fields.

    `kind` is class, enum, function (with a body), declaration, forward, alias or variable. Names carry their namespace
    (`c10::TensorImpl`), members are nested below their class. Of several with one name, the definition counts, else the first.
    """
    return _one_each(list(_CppScanner(_blank(text)).rows()))


_WEIGHT = {"class": 0, "enum": 0, "function": 1, "alias": 1, "variable": 1, "declaration": 2, "forward": 3}


def _one_each(rows: list[Row]) -> list[Row]:
    best: dict[tuple[str, ...], Row] = {}
    keys: list[tuple[str, ...]] = []
    stack: list[str] = []
    for row in rows:
        del stack[row.depth :]
        stack.append(row.name)
        key = tuple(stack)
        keys.append(key)
        if key not in best or _WEIGHT[row.kind] < _WEIGHT[best[key].kind]:
            best[key] = row
    return [row for row, key in zip(rows, keys, strict=True) if best[key] is row]


_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>\w*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
_PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)


_STUB = re.compile(r"^[ \t]*DECLARE_DISPATCH\([^;{}]*?(\w+)\s*\);?[ \t]*$", re.MULTILINE)
_BARE_MACRO = re.compile(
    r"^[ \t]*[A-Z][A-Z0-9_]+\([^;{}()]*(?:\([^;{}()]*\)[^;{}()]*)*\)[ \t]*$(?!\s*\{)", re.MULTILINE
)


def _blank(text: str) -> str:
    """Comments, literals, preprocessor lines and their `#else` branches become spaces; lines stay where they are.

    So do macro calls that stand alone without a semicolon, except `DECLARE_DISPATCH(type, name)`, which declares `name`.
    """

    def spaces(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    def stub(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", "", match[0]) + f"int {match[1]};"

    text = _without_alternatives(_NOISE.sub(spaces, text))
    return _BARE_MACRO.sub(spaces, _STUB.sub(stub, _PREPROCESSOR.sub(spaces, text)))


def _without_alternatives(text: str) -> str:
    """Of each `#if … #else … #endif` the first branch, so that braces balance."""
    kept: list[str] = []
    dropping: list[bool] = []
    for line in text.split("\n"):
        match = re.match(r"\s*#\s*(if|else|elif|endif)", line)
        kind = match[1] if match else ""
        if kind == "if":
            dropping.append(False)
        elif kind == "endif" and dropping:
            dropping.pop()
        elif kind and dropping:
            dropping[-1] = True
        kept.append("" if any(dropping) and not kind else line)
    return "\n".join(kept)


_TYPE = re.compile(r"(?P<key>\b(?:class|struct|union|enum(?:\s+(?:class|struct))?))\s+(?P<rest>[^(]*)$", re.DOTALL)
_SKIPPED_CALLS = {"decltype", "alignas", "__attribute__", "noexcept", "explicit", "__declspec", "requires", "sizeof"}


class _CppScanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.line_starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def line(self, position: int) -> int:
        low, high = 0, len(self.line_starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.line_starts[middle] <= position else (low, middle)
        return low + 1

    def rows(self, namespace: str = "", depth: int = 0) -> Iterator[Row]:
        """Read statements up to the closing brace of this scope."""
        begin = self.position
        while self.position < len(self.text):
            char = self.text[self.position]
            if char == "}":
                return
            if char == ";":
                yield from self._statement(self.text[begin : self.position], begin, namespace, depth)
                self.position += 1
                begin = self.position
            elif char == "{":
                ended, rows = self._brace(begin, namespace, depth)
                yield from rows
                if ended:
                    begin = self.position
            elif char == ":" and self._is_access_label(begin):
                self.position += 1
                begin = self.position
            elif char == "(":
                self._skip_pair("(", ")")
            else:
                self.position += 1

    def _is_access_label(self, begin: int) -> bool:
        return self.text[begin : self.position].strip() in ("public", "private", "protected")

    def _skip_pair(self, opening: str, closing: str) -> None:
        level = 0
        while self.position < len(self.text):
            char = self.text[self.position]
            self.position += 1
            level += (char == opening) - (char == closing)
            if level == 0:
                return

    def _start(self, begin: int) -> int:
        gap = re.compile(r"\s*").match(self.text, begin)
        assert gap is not None
        return self.line(gap.end())

    def _brace(self, begin: int, namespace: str, depth: int) -> tuple[bool, list[Row]]:
        """At an opening brace: read its scope or step over it. Returns whether a statement ended, and its rows."""
        head = self.text[begin : self.position]
        bare = _without_template(head).strip()
        start = self._start(begin)
        match = re.match(r"(?:inline\s+)?namespace\b\s*([\w:\s]*)$", bare)
        if match or re.match(r"extern\s*$", bare):
            inner = re.sub(r"\s|\binline\b", "", match[1]) if match else ""
            self.position += 1
            rows = list(self.rows("::".join(filter(None, (namespace, inner))), depth))
            self.position += 1
            return True, rows
        kind = _TYPE.search(bare)
        if kind and "=" not in bare:
            return self._type(kind, start, namespace, depth)
        name = _function_name(bare if "operator" in bare else _without_angles(bare))
        if name and not re.search(r"[^=!<>]=\s*$", bare):
            if self._in_initialisers(bare):
                self._skip_pair("{", "}")
                return False, []
            self._skip_pair("{", "}")
            return True, [
                Row(_qualified(namespace, name, depth), "function", start, self.line(self.position - 1), depth)
            ]
        self._skip_pair("{", "}")
        return False, []

    def _in_initialisers(self, head: str) -> bool:
        """Whether this brace initialises a member (`: a_{x}`) and is not the body."""
        after = re.search(r"\)[^()]*?[^:]:[^:](?P<list>.*)$", head, re.DOTALL)
        return (
            bool(after)
            and bool(re.search(r"[\w>]\s*$", head))
            and not re.search(r"\b(?:const|noexcept|override)\s*$", head)
        )

    def _type(self, kind: re.Match[str], start: int, namespace: str, depth: int) -> tuple[bool, list[Row]]:
        rest = re.split(r"(?<!:):(?!:)", kind["rest"])[0]
        words = [w for w in re.findall(r"[\w:]+", re.sub(r"<.*>", "", rest, flags=re.DOTALL)) if w != "final"]
        is_enum = kind["key"].startswith("enum")
        if is_enum or not words:
            self._skip_pair("{", "}")
            rows = []
        else:
            self.position += 1
            rows = list(self.rows(namespace, depth + 1))
            self.position += 1
        end = self.line(self.position - 1)
        tail = re.compile(r"[^;{}]*;").match(self.text, self.position)
        if tail:
            self.position = tail.end()
        if not words:
            return True, []
        return True, [
            Row(_qualified(namespace, words[-1], depth), "enum" if is_enum else "class", start, end, depth),
            *rows,
        ]

    def _statement(self, text: str, begin: int, namespace: str, depth: int) -> Iterator[Row]:
        bare = re.sub(r"^(?:\s*(?:public|private|protected)\s*:(?!:))+", "", _without_template(text)).strip()
        start, end = self._start(begin), self.line(self.position)
        found: tuple[str, str] | None = None
        if (match := re.match(r"using\s+(\w+)\s*(?:\w+\s*\(.*\)\s*)?=", bare)) or (
            match := re.match(r"typedef\b.*?(\w+)\s*$", bare, re.DOTALL)
        ):
            found = match[1], "alias"
        elif match := re.match(
            r"(?:class|struct|union|enum(?:\s+class)?)\s+(?:[A-Z_0-9]+\s+)?(\w+)\s*(?::[^:].*)?$", bare
        ):
            found = match[1], "forward"
        elif bare.startswith(("using", "friend", "static_assert", "return", "namespace")) or not bare:
            return
        elif name := _function_name(bare if "operator" in bare else _without_angles(bare).split("=")[0]):
            if re.match(r"[A-Z][A-Z0-9_]+$", name) and bare.startswith(name):
                return  # a macro call
            found = name, "declaration"
        elif match := re.search(
            r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?::\s*\d+\s*)?(?:\{\s*[^;]*\}\s*)?(?:=.*)?$", bare, re.DOTALL
        ):
            if re.match(r"\w+$", bare):
                return
            found = match[1], "variable"
        if found and not found[0][0].isdigit():
            yield Row(_qualified(namespace, found[0], depth), found[1], start, end, depth)


def _qualified(namespace: str, name: str, depth: int) -> str:
    return name if depth or not namespace else f"{namespace}::{name}"


def _without_template(head: str) -> str:
    """The head below its leading `template <…>` and attribute clauses."""
    head = head.lstrip()
    while True:
        if match := re.match(r"template\s*<", head):
            level, at = 1, match.end()
            while at < len(head) and level:
                level += (head[at] == "<") - (head[at] == ">" and head[at - 1] != "-")
                at += 1
            head = head[at:].lstrip()
        elif match := re.match(r"\[\[[^\]]*\]\]\s*", head):
            head = head[match.end() :]
        else:
            return head


def _without_angles(head: str) -> str:
    """The head with template arguments taken out, so that `function<void()> field` does not look like a function."""
    while True:
        shorter = re.sub(r"(?<=[\w>])\s*<[^<>]*>", "", head)
        if shorter == head:
            return head
        head = shorter


def _function_name(head: str) -> str | None:
    """The name before the first parameter list, skipping calls that are part of the decoration."""
    position = 0
    while True:
        match = re.compile(r"(operator\s*(?:\(\s*\)|[^\s\w(]+|[\w:\s*&<>]+?)|[~\w:]+)\s*(?:<[^()]*>)?\s*\(").search(
            head, position
        )
        if match is None:
            return None
        name = re.sub(r"\s+", " ", match[1]).strip()
        if name in _SKIPPED_CALLS or (
            re.match(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+$", name) and position == 0 and "(" in head[match.end() :]
        ):
            level, position = 1, match.end()
            while position < len(head) and level:
                level += (head[position] == "(") - (head[position] == ")")
                position += 1
            continue
        if "=" in head[: match.start()] and "operator" not in name:
            return None
        return name.lstrip(":") or None
