# Tangled from chapters/05_data/5_dataloader.py — edit there, or here and run `readtorch sync`.
"""Datasets, samplers and loaders."""

from readtorch.utils.data._utils.collate import default_collate as default_collate
from readtorch.utils.data._utils.collate import default_convert as default_convert
from readtorch.utils.data._utils.worker import get_worker_info as get_worker_info
from readtorch.utils.data.dataloader import DataLoader as DataLoader
from readtorch.utils.data.dataloader import _DatasetKind as _DatasetKind
from readtorch.utils.data.dataset import ChainDataset as ChainDataset
from readtorch.utils.data.dataset import ConcatDataset as ConcatDataset
from readtorch.utils.data.dataset import Dataset as Dataset
from readtorch.utils.data.dataset import IterableDataset as IterableDataset
from readtorch.utils.data.dataset import StackDataset as StackDataset
from readtorch.utils.data.dataset import Subset as Subset
from readtorch.utils.data.dataset import TensorDataset as TensorDataset
from readtorch.utils.data.dataset import random_split as random_split
from readtorch.utils.data.distributed import DistributedSampler as DistributedSampler
from readtorch.utils.data.sampler import BatchSampler as BatchSampler
from readtorch.utils.data.sampler import RandomSampler as RandomSampler
from readtorch.utils.data.sampler import Sampler as Sampler
from readtorch.utils.data.sampler import SequentialSampler as SequentialSampler
from readtorch.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from readtorch.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler
