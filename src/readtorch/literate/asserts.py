"""Failing assertions that say what they compared, for claims, checks and tests."""

from __future__ import annotations

import ast

_LIMIT = 200


def explain_asserts(tree: ast.Module) -> ast.Module:
    """`assert a == b` with a message that shows both sides; assertions that bring a message stay as they are."""
    return ast.fix_missing_locations(_Explain().visit(tree))


class _Explain(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        test = node.test
        if node.msg is not None or not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return node
        left, right = test.left, test.comparators[0]
        if not all(_may_name(side) for side in (left, right)):
            return node
        kept = ast.Compare(_named("_left_", left), test.ops, [_named("_right_", right)])
        compared = ast.parse(f"__import__({__name__!r}, fromlist=['compared']).compared", mode="eval").body
        names = [ast.Name("_left_", ast.Load()), ast.Constant(ast.unparse(test)), ast.Name("_right_", ast.Load())]
        return ast.copy_location(ast.Assert(kept, ast.Call(compared, names, [])), node)


def _named(name: str, value: ast.expr) -> ast.NamedExpr:
    return ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), value), value)


def _may_name(side: ast.expr) -> bool:
    """A walrus cannot stand around `await` in every place, nor around what a comprehension's iterable holds."""
    return not any(
        isinstance(n, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.Starred) for n in ast.walk(side)
    )


def compared(left: object, text: str, right: object) -> str:
    return f"{text}\n    left:  {_short(left)}\n    right: {_short(right)}"


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # the value is what is broken
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= _LIMIT else text[: _LIMIT - 1] + "…"
