# Tangled from chapters/01_import/8d_event_files.py — edit there, or here and run `readtorch sync`.
"""Curves on disk for TensorBoard (twin of `torch/utils/tensorboard/__init__.py`)."""

from readtorch.utils.tensorboard.writer import FileWriter as FileWriter
from readtorch.utils.tensorboard.writer import SummaryWriter as SummaryWriter
