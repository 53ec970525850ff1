# Tangled from chapters/07_distributed.py — edit there, or here and run `readtorch sync`.
"""What is built on collectives."""

from readtorch.distributed.algorithms import join as join
