"""Messages are our own but for the phrases that people paste into a search box: these are PyTorch 2.13.0's to the letter."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

PHRASES = {
    "x = t.ones(3, requires_grad=True); y = x.exp(); y.add_(1); y.sum().backward()": "one of the variables needed for gradient computation has been modified by an inplace operation",
    "t.nn.functional.conv1d(t.ones(1, 1, 2), t.ones(1, 1, 3))": "Kernel size can't be greater than actual input size",
    "t.nn.Conv2d(1, 1, 3)(t.ones(1, 1, 2, 2))": "Kernel size can't be greater than actual input size",
    "t.zeros(3).expand(2, 3).add_(1)": "more than one element of the written-to tensor refers to a single memory location",
    "x = t.arange(4.0); x[1:].add_(x[:-1])": "some elements of the input tensor and the written-to tensor refer to a single memory location",
    "m = t.nn.Linear(1, 1); m.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True); m(t.ones(1))": "must return None or a tuple of (new_args, new_kwargs)",
    "t.ones(3)[5]": "index 5 is out of bounds for dimension 0 with size 3",
    "t.ones(3, 2)[:, 5]": "index 5 is out of bounds for dimension 1 with size 2",
    "t.ones(3)[t.tensor([5])]": "index 5 is out of bounds for dimension 0 with size 3",
    "t.ones(3, 2).select(1, -4)": "index -4 out of range for tensor of size [3, 2] at dimension 1",
    "t.gather(t.ones(3), 0, t.tensor([5]))": "index 5 is out of bounds for dimension 0 with size 3",
    "t.index_select(t.ones(3), 0, t.tensor([5]))": "index out of range in self",
    "t.nn.Embedding(3, 2)(t.tensor([5]))": "index out of range in self",
    "t.nn.EmbeddingBag(3, 2)(t.tensor([[5]]))": "is not in the valid range [0, 3)",
    "t.nn.functional.cross_entropy(t.ones(1, 3), t.tensor([5]))": "Target 5 is out of bounds.",
    "t.einsum('ij,jk->ii', t.ones(2, 2), t.ones(2, 2))": "output subscript i appears more than once in the output",
    "t.einsum('ij->ii', t.ones(2, 2))": "output subscript i appears more than once in the output",
    "t.nn.Linear(2, 2)(t.ones(2).double())": "mat1 and mat2 must have the same dtype, but got Double and Float",
    "t.nn.Linear(2, 2)(t.ones(3, 4, 2).half())": "mat1 and mat2 must have the same dtype, but got Half and Float",
    "t.addmm(t.ones(2), t.ones(2, 2), t.ones(2, 2).double())": "self and mat2 must have the same dtype, but got Float and Double",
    "t.full((2,), 300, dtype=t.uint8)": "value cannot be converted to type uint8_t without overflow",
    "t.nn.functional.pad(t.ones(1, 1, 4, 4), (1, 1), mode='reflect')": "Padding size 2 is not supported for 4D input tensor.",
    "t.save(1, '/no such folder/x')": "Parent directory /no such folder does not exist.",
    "t.nn.Embedding(3, 2)(t.tensor([1.0]))": "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead",
    "t.nn.functional.cross_entropy(t.ones(3, 5), t.ones(3, 1, dtype=t.int64))": "0D or 1D target tensor expected, multi-target not supported",
    "t.nn.NLLLoss()(t.ones(2, 3), t.ones(2, 3, dtype=t.int64))": "0D or 1D target tensor expected, multi-target not supported",
    "t.nn.Conv2d(3, 8, 3)(t.ones(28, 28))": "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [28, 28]",
    "t.nn.Conv2d(3, 8, 3)(t.ones(1, 3, 8, 8, dtype=t.uint8))": "Input type (unsigned char) and bias type (float) should be the same",
    "t.nn.BatchNorm1d(3)(t.ones(1, 3))": "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])",
    "next(iter(t.utils.data.DataLoader([t.ones(2), t.ones(3)], batch_size=2)))": "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
    "next(iter(t.utils.data.DataLoader([object()])))": "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'object'>",
    "t.utils.data.random_split([1, 2, 3], [1, 1])": "Sum of input lengths does not equal the length of the input dataset!",
    "t.optim.SGD(t.ones(2, requires_grad=True), 0.1)": "params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch.FloatTensor",
    "t.optim.SGD([t.ones(1)], 0.1).load_state_dict({'state': {}, 'param_groups': [{'params': []}]})": "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
    "list(t.utils.data.WeightedRandomSampler([1.0, -1.0], 3))": "invalid multinomial distribution (encountering probability entry < 0)",
    "t.einsum('ij,jk->ik', t.ones(2, 3), t.ones(2, 3))": "subscript j has size 2 for operand 1 which does not broadcast with previously seen size 3",
    "t.einsum('ij,jk->ik', t.ones(2, 3))": "fewer operands were provided than specified in the equation",
    "t.ones(2) & t.ones(2)": "\"bitwise_and_cpu\" not implemented for 'Float'",
    "t.ones(2) << 1": "\"lshift_cpu\" not implemented for 'Float'",
    "t.ones(2)[t.tensor([True, False, True])]": "The shape of the mask [3] at index 0 does not match the shape of the indexed tensor [2] at index 0",
    "x = t.ones(2); x[:] = t.ones(3)": "The expanded size of the tensor (2) must match the existing size (3) at non-singleton dimension 0",
    "x = t.ones(2); x[0] = t.ones(2)": "the number of sizes provided (0) must be greater or equal to the number of dimensions in the tensor (1)",
    "t.ones(2).register_hook(abs)": "cannot register a hook on a tensor that doesn't require gradient",
    "t.linalg.cholesky(t.tensor([[1.0, 2.0], [2.0, 1.0]]))": "the input is not positive-definite (the leading minor of order 2 is not positive-definite)",
    "t.linalg.inv(t.ones(3, 2, 2))": "(Batch element 0): The diagonal element 2 is zero, the inversion could not be completed because the input matrix is singular",
    "t.linalg.inv(t.ones(2, 3))": "A must be batches of square matrices, but they are 2 by 3 matrices",
    "t.split(t.ones(5), [1, 2])": "split_with_sizes expects split_sizes to sum exactly to 5 (input tensor's size at dimension 0), but got split_sizes=[1, 2]",
    "t.ones(2, 3).permute(0)": "number of dimensions in the tensor input does not match the length of the desired ordering of dimensions",
    "t.nn.init.xavier_uniform_(t.ones(3))": "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions",
    "t.distributed.get_rank()": "Default process group has not been initialized, please make sure to call init_process_group.",
    "t.ones(2).masked_fill(t.ones(2), 0)": "masked_fill_ only supports boolean masks, but got mask with dtype float",
    "t.ones(2).to('float64')": "Invalid device string: 'float64'",
    "t.device('')": "Device string must not be empty",
    "import tempfile; t.save(1, tempfile.gettempdir())": "open file failed with strerror: Is a directory",
    "t.nn.utils.rnn.pad_sequence([t.ones(2, 3), t.ones(2, 4)])": "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    "import numpy; t.from_numpy(numpy.array([1], dtype='>i4'))": "given numpy array has byte order different from the native byte order",
    "import numpy; t.exp(numpy.ones(2))": "exp(): argument 'input' (position 1) must be Tensor, not numpy.ndarray",
    "t.ones(2, 3).argmax('a')": "argmax(): argument 'dim' (position 1) must be int, not str",
    "t.rand('a')": "must be tuple of ints, not str",
    "t.Generator('cuda')": "Cannot get CUDA generator without",
}


@pytest.mark.parametrize("program", PHRASES)
def test_phrases_that_people_search_for_are_upstreams(program: str) -> None:
    errors = []
    for name in ("torch", "readtorch"):
        names: dict[str, Any] = {"t": importlib.import_module(name)}
        with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)) as caught:
            exec(program, names)
        assert PHRASES[program] in str(caught.value)
        errors.append(caught.type.__name__)
    assert errors[0] == errors[1]
