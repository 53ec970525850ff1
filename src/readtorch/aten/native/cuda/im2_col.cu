// Tangled from chapters/a3_kernels/7_columns_and_embedding.py — edit there, or here and run `readtorch sync`.
#include "aten/native/cuda/memory_access.cuh"
#include "aten/native/cuda/im2col.cuh"
