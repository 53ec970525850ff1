# Tangled from chapters/a1_operators/9a_seldom_called.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any, NoReturn


def _gone(name: str, instead: str) -> NoReturn:
    raise RuntimeError(
        f"torch.{name}: This function was deprecated since version 1.9 and is now removed. Use torch.linalg.{instead}"
    )


def matrix_rank(input: Any, tol: Any = None, symmetric: bool = False, *, out: Any = None) -> NoReturn:
    """RuntimeError: it is gone."""
    _gone("matrix_rank", "matrix_rank, whose `hermitian` was `symmetric`")


def solve(input: Any = None, A: Any = None, *, out: Any = None) -> NoReturn:
    """RuntimeError: it is gone."""
    _gone("solve", "solve(A, B), with the arguments the other way round")


def lstsq(input: Any = None, A: Any = None, *, out: Any = None) -> NoReturn:
    """RuntimeError: it is gone."""
    _gone("lstsq", "lstsq(A, B), with the arguments the other way round")


def _symeig(input: Any = None, eigenvectors: bool = False, upper: bool = True, *, out: Any = None) -> NoReturn:
    """RuntimeError: it is gone."""
    _gone("symeig", "eigh or eigvalsh, which read the lower triangle")


def eig(self: Any = None, eigenvectors: bool = False, *, e: Any = None, v: Any = None) -> NoReturn:
    """RuntimeError: it is gone."""
    _gone("eig", "eig or eigvals, whose results are complex")
