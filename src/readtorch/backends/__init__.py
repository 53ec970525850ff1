# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""Settings of the libraries behind the operators, as far as scripts ask for them."""

from readtorch.backends import cuda as cuda
from readtorch.backends import cudnn as cudnn
from readtorch.backends import mkl as mkl
from readtorch.backends import mkldnn as mkldnn
from readtorch.backends import mps as mps
from readtorch.backends import openmp as openmp
