"""The tensor: storage, views, versions, dtypes, conversions, indexing, interop."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import readtorch as torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from strategies import arrays, basic_index, broadcastable


def test_views_share_memory_and_version_counter() -> None:
    x = torch.zeros(2, 3)
    row = x[0]
    row.add_(1)
    assert x.tolist() == [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    assert x._version == row._version == 1
    assert row._base is x
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_detach_shares_the_version_counter_and_data_does_not() -> None:
    x = torch.ones(2)
    x.detach().add_(1)
    assert x._version == 1
    x.data.add_(1)
    assert x._version == 1
    assert x.tolist() == [3.0, 3.0]


def test_storage_is_the_same_object_while_held() -> None:
    x = torch.arange(6.0)
    storage = x.untyped_storage()
    assert x[2:].untyped_storage() is storage
    assert storage.nbytes() == 24
    assert x[2:].storage_offset() == 2


def test_tensor_accepts_attributes_and_loses_them_in_operators() -> None:
    x = torch.ones(1)
    x.note = "kept"
    assert x.note == "kept"
    assert not hasattr(x + 1, "note")


@given(broadcastable())
def test_addition_broadcasts_as_numpy_does(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    result = torch.tensor(a) + torch.tensor(b)
    np.testing.assert_array_equal(result.cpu().numpy(), a + b)


@given(broadcastable())
def test_gradient_of_a_broadcast_operand_has_its_own_shape(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = (torch.tensor(x).requires_grad_() for x in pair)
    (a * b).sum().backward()
    assert a.grad.shape == a.shape
    assert b.grad.shape == b.shape
    np.testing.assert_allclose(
        a.grad.sum().item(), np.broadcast_to(pair[1], (pair[0] * pair[1]).shape).sum(), rtol=1e-9, atol=1e-6
    )


@given(st.data())
def test_basic_index_gives_numpys_elements_and_scatters_the_gradient_back(data: st.DataObject) -> None:
    array = data.draw(arrays())
    index = data.draw(basic_index(array.shape))
    x = torch.tensor(array).requires_grad_()
    part = x[index]
    np.testing.assert_array_equal(part.detach().cpu().numpy(), array[index])
    part.sum().backward()
    expected = np.zeros_like(array)
    expected[index] += 1
    np.testing.assert_array_equal(x.grad.cpu().numpy() if x.grad is not None else 0 * expected, expected)


@given(arrays())
def test_from_numpy_shares_memory_in_any_layout(array: np.ndarray) -> None:
    x = torch.from_numpy(array)
    if array.size:
        assert x.stride() == tuple(step // array.itemsize for step in array.strides)
    x.fill_(7)
    assert (array == 7).all()


def test_from_numpy_refuses_what_a_tensor_cannot_hold() -> None:
    with pytest.raises(TypeError, match="object_"):
        torch.from_numpy(np.array([None]))
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(np.arange(3)[::-1])
    with pytest.raises(ValueError, match="byte order"):
        torch.tensor(np.arange(3, dtype=">i4"))


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (torch.int64, torch.float16, torch.float16),
        (torch.uint8, torch.int8, torch.int16),
        (torch.float16, torch.bfloat16, torch.float32),
        (torch.float64, torch.complex64, torch.complex128),
        (torch.bool, torch.uint8, torch.uint8),
    ],
)
def test_promotion_goes_by_category_then_width(left: object, right: object, result: object) -> None:
    assert torch.promote_types(left, right) is result
    assert torch.promote_types(right, left) is result


def test_zero_dim_tensors_and_numbers_do_not_widen() -> None:
    half = torch.ones(2, dtype=torch.float16)
    assert (half * 2.5).dtype is torch.float16
    assert (half * torch.tensor(2.0, dtype=torch.float64)).dtype is torch.float16
    assert (torch.ones(2, dtype=torch.int32) * 2.5).dtype is torch.float32
    assert (torch.tensor(1) / 2).dtype is torch.float32


def test_division_by_zero_is_silent() -> None:
    with np.errstate(all="raise"):
        assert (torch.ones(1) / 0).item() == float("inf")
        assert torch.log(torch.zeros(1)).item() == -float("inf")


def test_numpys_own_error_state_is_untouched() -> None:
    before = np.geterr()
    torch.ones(1) / 0
    x = torch.zeros(1, requires_grad=True)
    x.sqrt().backward()
    assert np.geterr() == before


def test_integers_wrap_as_in_c() -> None:
    assert (torch.tensor([250], dtype=torch.uint8) + 10).tolist() == [4]
    assert (torch.tensor([1], dtype=torch.uint8) + 300).tolist() == [45]
    assert (torch.tensor([1], dtype=torch.uint8) - 2).tolist() == [255]


def test_out_writes_into_the_given_tensor() -> None:
    out = torch.empty(3)
    result = torch.add(torch.ones(3), 1, out=out)
    assert result is out
    assert out.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(torch.ones(3), 1, out=torch.empty(3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.add(torch.ones(3, requires_grad=True), 1, out=out)


def test_setitem_in_every_form() -> None:
    x = torch.zeros(3, 4)
    x[0] = 1
    x[1, 2] = torch.tensor(5)
    x[:, 3] = torch.tensor([7.0, 8.0, 9.0])
    x[torch.tensor([2, 2]), torch.tensor([0, 1])] = torch.tensor([3.0, 4.0])
    x[x == 1] = -1
    assert x.tolist() == [[-1, -1, -1, 7], [0, 0, 5, 8], [3, 4, 0, 9]]


@pytest.mark.parametrize("index", [5, -4, slice(None, None, -1), 1.5, "a", (0, 0), [3]])
def test_bad_indices_are_refused(index: object) -> None:
    with pytest.raises((IndexError, TypeError, ValueError)):
        torch.ones(3)[index]


def test_deepcopy_keeps_what_was_shared_shared() -> None:
    x = torch.zeros(4)
    y = x[1:]
    a, b = copy.deepcopy([x, y])
    b[0] = 1
    assert a.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert x.tolist() == [0.0] * 4


def test_deepcopy_of_a_non_leaf_is_refused() -> None:
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(torch.ones(1, requires_grad=True) * 2)


def test_pickle_round_trip() -> None:
    x = torch.randn(3, 4).t().requires_grad_()
    y = pickle.loads(pickle.dumps(x))
    assert torch.equal(x, y)
    assert y.stride() == x.stride()
    assert y.requires_grad
    assert pickle.loads(pickle.dumps(torch.float32)) is torch.float32
    assert pickle.loads(pickle.dumps(torch.Size([2]))) == torch.Size([2])


def test_meta_tensors_have_shapes_and_no_data() -> None:
    x = torch.ones(1000, 1000, 1000, device="meta")
    assert x.is_meta
    assert x.numel() == 10**9
    y = torch.ones(3, 4, device="meta").exp().sum(0)
    assert y.is_meta
    assert y.shape == (4,)
    with pytest.raises(RuntimeError):
        x[0, 0, 0].item()
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        x.to("cpu")


@pytest.mark.cpu("there is a GPU then")
def test_cuda_without_a_gpu_says_so() -> None:
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        torch.ones(1, device="cuda")


def test_results_on_no_observer_and_with_one() -> None:
    from readtorch.aten import record_function

    class Watch:
        def __init__(self) -> None:
            self.names: list[str] = []

        def operator(self, name: str, inputs: tuple, outputs: object, begin_ns: int, end_ns: int) -> None:
            assert end_ns >= begin_ns
            self.names.append(name)

        def node(self, node: object, grads_in: tuple, grads_out: tuple, begin_ns: int, end_ns: int) -> None:
            self.names.append(type(node).__name__)

        def alloc(self, storage: object) -> None:
            self.names.append("alloc")

    watch = Watch()
    record_function.observer = watch
    try:
        x = torch.ones(2, 2).requires_grad_()
        (x @ x + 1).exp().sum().backward()
    finally:
        record_function.observer = None
    assert watch.names[:6] == ["alloc", "aten::mm", "aten::matmul", "aten::add", "aten::exp", "aten::sum"]
    assert "MmBackward0" in watch.names
    assert watch.names[-1] == "AccumulateGrad"


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.expand(4, 3).add_(1),
        lambda x: x.expand(4, 3).copy_(torch.zeros(4, 3)),
        lambda x: torch.add(torch.ones(4, 3), x, out=x.expand(4, 3)),
        lambda x: x[1:].add_(x[:-1]),
        lambda x: x[1:].copy_(x[:-1]),
        lambda x: x.view(3, 1).expand(3, 3).mul_(2),
    ],
)
def test_a_write_where_elements_share_memory_is_refused_and_nothing_is_written(write) -> None:
    x = torch.arange(3.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        write(x)
    assert x.tolist() == [0, 1, 2]


def test_a_write_to_the_same_elements_or_to_others_of_one_storage_is_allowed() -> None:
    x = torch.arange(4.0)
    assert x.add_(x).tolist() == [0, 2, 4, 6]
    x[:2].add_(x[2:])
    assert x.tolist() == [4, 8, 4, 6]
    assert torch.zeros(1, 3).expand(1, 3).add_(1).tolist() == [[1, 1, 1]]
    assert torch.zeros(1, 3).expand(2, 3).fill_(1).tolist() == [[1, 1, 1]] * 2


def test_copies_of_an_expanded_tensor_are_contiguous() -> None:
    x = torch.ones(1, 3).expand(4, 3)
    assert x.clone().stride() == torch.zeros_like(x).stride() == (3, 1)
    assert x.t().clone().shape == (3, 4)


def test_an_integer_copy_requires_no_gradient() -> None:
    x = torch.ones(2, requires_grad=True)
    for copy_ in (x.long(), x.to(torch.int8), x.bool(), (x * 2).int()):
        assert not copy_.requires_grad and copy_.grad_fn is None
    assert x.half().requires_grad


def test_a_number_beside_a_list_is_no_tensor() -> None:
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        torch.tensor([1, [2, 3]])


@pytest.mark.cpu("an array of the host beside a tensor")
def test_a_tensor_is_compared_with_an_array_element_by_element() -> None:
    assert (torch.ones(2) == np.array([1.0, 2.0])).tolist() == [True, False]
    assert (torch.ones(2) != np.array([1.0, 2.0])).tolist() == [False, True]
    assert (torch.ones(2) == None) is False  # noqa: E711  # == is what is tested


def test_to_takes_the_device_before_the_dtype() -> None:
    x = torch.ones(2)
    assert x.to("cpu", torch.float64).dtype is x.to(dtype=torch.float64, device="cpu").dtype is torch.float64
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        x.to(torch.float64, "cpu")


@pytest.mark.cpu("shares memory with NumPy")
def test_dlpack_shares_memory_in_both_directions() -> None:
    array = np.zeros(2)
    torch.from_dlpack(array)[0] = 5
    assert array.tolist() == [5, 0]
    x = torch.zeros(2)
    np.from_dlpack(x)[0] = 3
    torch.utils.dlpack.from_dlpack(x)[1] = 7
    assert x.tolist() == [3, 7]


def test_a_deep_copy_of_a_view_has_the_whole_storage() -> None:
    x = torch.arange(4.0)
    alone = copy.deepcopy(x[1:])
    assert alone.untyped_storage().nbytes() == 16 and alone.storage_offset() == 1 and alone.tolist() == [1, 2, 3]
    assert copy.deepcopy(x[4:]).shape == (0,)


def test_in_place_operations_on_the_meta_device_check_shapes_and_write_nothing() -> None:
    x = torch.ones(2, 2, device="meta")
    before = torch.get_rng_state()
    for same in (x.add_(1), x.uniform_(), x.zero_(), x.clamp_(0), x.fill_(3)):
        assert same is x
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(RuntimeError, match="must match"):
        x.add_(torch.ones(2, 3, device="meta"))
    assert torch.nn.Linear(2, 3, device="meta").weight.shape == (3, 2)
