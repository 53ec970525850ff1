# Tangled from chapters/a3_kernels/3_layer_norm.py — edit there, or here and run `readtorch sync`.
"""Threads for rows that are held in registers."""

HELD = 4
"""Vectors that a thread keeps; the kernels' constant of that name."""


def row_block(vectors: int) -> tuple[int, int]:
    """(threads of a row, rows of a block) for rows of so many vectors."""
    across = 32
    while across < 512 and across * HELD < vectors:
        across *= 2
    return across, 4 if across == 32 else 1
