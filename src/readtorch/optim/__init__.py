# Tangled from chapters/04_optim/8_swa.py — edit there, or here and run `readtorch sync`.
"""Optimizers and learning-rate schedulers."""

from readtorch.optim import (
    _adafactor,
    _muon,
    adadelta,
    adagrad,
    adam,
    adamax,
    adamw,
    asgd,
    lbfgs,
    nadam,
    optimizer,
    radam,
    rmsprop,
    rprop,
    sgd,
    sparse_adam,
)
from readtorch.optim import lr_scheduler as lr_scheduler
from readtorch.optim import swa_utils as swa_utils
from readtorch.optim._adafactor import Adafactor as Adafactor
from readtorch.optim._muon import Muon as Muon
from readtorch.optim.adadelta import Adadelta as Adadelta
from readtorch.optim.adagrad import Adagrad as Adagrad
from readtorch.optim.adam import Adam as Adam
from readtorch.optim.adamax import Adamax as Adamax
from readtorch.optim.adamw import AdamW as AdamW
from readtorch.optim.asgd import ASGD as ASGD
from readtorch.optim.lbfgs import LBFGS as LBFGS
from readtorch.optim.nadam import NAdam as NAdam
from readtorch.optim.optimizer import Optimizer as Optimizer
from readtorch.optim.radam import RAdam as RAdam
from readtorch.optim.rmsprop import RMSprop as RMSprop
from readtorch.optim.rprop import Rprop as Rprop
from readtorch.optim.sgd import SGD as SGD
from readtorch.optim.sparse_adam import SparseAdam as SparseAdam

# The modules go by their full names only, as upstream: `torch.optim.adam` would read like an optimizer.
del (
    _adafactor,
    _muon,
    adadelta,
    adagrad,
    adam,
    adamax,
    adamw,
    asgd,
    lbfgs,
    nadam,
    optimizer,
    radam,
    rmsprop,
    rprop,
    sgd,
    sparse_adam,
)
