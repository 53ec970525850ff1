"""Behaviours of layers that need no PyTorch to be judged: layouts, buffers, threads, packing, lazy modules, utilities."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import readtorch as torch
from readtorch import nn

F = nn.functional


def test_convolution_keeps_the_layout_of_its_input() -> None:
    x, w = torch.rand(2, 8, 5, 5), torch.rand(4, 8, 3, 3)
    last = x.contiguous(memory_format=torch.channels_last)
    plain, turned = F.conv2d(x, w), F.conv2d(last, w)
    assert plain.is_contiguous()
    assert not turned.is_contiguous()
    assert turned.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(plain.cpu().numpy(), turned.cpu().numpy(), rtol=1e-4, atol=1e-5)


def test_result_of_a_convolution_can_be_viewed_flat() -> None:
    y = F.relu(F.max_pool2d(F.conv2d(torch.rand(2, 32, 8, 8), torch.rand(16, 32, 3, 3)), 2))
    assert y.view(2, -1).shape == (2, 16 * 9)


def test_batch_norm_keeps_channels_last() -> None:
    x = torch.rand(4, 3, 5, 5).contiguous(memory_format=torch.channels_last)
    assert F.batch_norm(x, None, None, training=True).is_contiguous(memory_format=torch.channels_last)


def test_convolutions_in_several_threads_do_not_share_buffers() -> None:
    xs = [torch.rand(4, 32, 16, 16) for _ in range(4)]
    w = torch.rand(32, 32, 3, 3)
    alone = [F.conv2d(x, w, padding=1) for x in xs]
    wrong: list[int] = []

    def work(i: int) -> None:
        wrong.extend(i for _ in range(10) if not torch.equal(F.conv2d(xs[i], w, padding=1), alone[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_survive_the_next_call() -> None:
    """Kernels reuse buffers: no result may lie in one."""
    x, w = torch.rand(2, 8, 6, 6), torch.rand(8, 8, 3, 3)
    for padding in (0, 1):
        first = F.conv2d(x, w, padding=padding)
        kept = first.clone()
        F.conv2d(torch.rand(2, 8, 6, 6), torch.rand(8, 8, 3, 3), padding=padding)
        assert torch.equal(first, kept)


def test_large_images_are_cut_into_blocks_of_rows() -> None:
    x, w = torch.rand(1, 16, 150, 140), torch.rand(4, 16, 5, 5)
    whole = F.conv2d(x, w, stride=2, padding=2)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x.cpu().numpy()[0], ((0, 0), (2, 2), (2, 2))), (5, 5), (1, 2)
    )
    by_hand = np.einsum("cijkl,ockl->oij", windows[:, ::2, ::2], w.cpu().numpy())
    np.testing.assert_allclose(whole.cpu().numpy()[0], by_hand, rtol=1e-4)


def test_batch_norm_momentum_none_averages_all_batches() -> None:
    norm = nn.BatchNorm1d(1, momentum=None)
    for value in (1.0, 3.0, 8.0):
        norm(torch.tensor([[value], [value + 2]]))
    assert norm.running_mean.item() == pytest.approx(5.0)
    assert norm.num_batches_tracked.item() == 3


def test_batch_norm_of_version_1_checkpoint_loads() -> None:
    norm = nn.BatchNorm1d(2)
    old = {key: value for key, value in norm.state_dict().items() if key != "num_batches_tracked"}
    norm.load_state_dict(old)
    assert norm.num_batches_tracked.item() == 0


def test_evaluation_touches_no_statistics() -> None:
    norm = nn.BatchNorm1d(2).eval()
    before = copy.deepcopy(norm.state_dict())
    norm(torch.rand(4, 2))
    assert all(torch.equal(before[key], value) for key, value in norm.state_dict().items())


def test_sync_batch_norm_conversion_keeps_parameters_and_bias_flag() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3, bias=False), nn.ReLU())
    weight = net[0].weight
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(converted[0]) is nn.SyncBatchNorm
    assert converted[0].weight is weight
    assert converted[0].bias is None


def test_padding_row_of_an_embedding_gets_no_gradient() -> None:
    table = nn.Embedding(4, 2, padding_idx=-1)
    assert table.padding_idx == 3
    table(torch.tensor([[3, 0], [3, 3]])).sum().backward()
    assert table.weight.grad.tolist() == [[1, 1], [0, 0], [0, 0], [0, 0]]


def test_max_norm_scales_looked_up_rows_in_place() -> None:
    table = nn.Embedding(2, 2, max_norm=1.0, _weight=torch.tensor([[3.0, 4.0], [3.0, 4.0]]))
    table(torch.tensor([0]))
    np.testing.assert_allclose(table.weight.detach().cpu().numpy(), [[0.6, 0.8], [3, 4]], rtol=1e-5)


def test_dropout_in_place_and_in_evaluation() -> None:
    x = torch.ones(50)
    assert F.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0.0, 2.0}
    y = torch.ones(3)
    assert torch.equal(nn.Dropout(0.9).eval()(y), y)
    assert F.dropout(y, 1.0).sum() == 0


def test_dropped_channels_are_whole() -> None:
    y = F.dropout2d(torch.ones(8, 8, 3, 3), 0.5)
    per_channel = y.reshape(64, 9)
    assert torch.equal(per_channel.min(1)[0], per_channel.max(1)[0])
    assert 0 < (per_channel[:, 0] == 0).sum() < 64


def test_replaced_parameter_of_an_lstm_is_used() -> None:
    lstm = nn.LSTM(2, 3)
    x = torch.rand(4, 1, 2)
    with torch.no_grad():
        before = lstm(x)[0]
        lstm.weight_ih_l0 = nn.Parameter(torch.zeros(12, 2))
        lstm.weight_hh_l0 = nn.Parameter(torch.zeros(12, 3))
        after = lstm(x)[0]
    assert not torch.equal(before, after)
    assert torch.allclose(after[1], lstm(x * 0)[0][1])


def test_lstm_can_be_copied_and_pickled() -> None:
    lstm = nn.LSTM(2, 3, 2)
    x = torch.rand(4, 1, 2)
    for other in (copy.deepcopy(lstm), pickle.loads(pickle.dumps(lstm))):
        assert torch.equal(other(x)[0], lstm(x)[0])
        assert other._flat_weights[0] is other.weight_ih_l0


def test_unpacking_gives_the_sequences_back() -> None:
    rnn = nn.utils.rnn
    rows = [torch.rand(2, 3), torch.rand(4, 3), torch.rand(1, 3)]
    back = rnn.unpack_sequence(rnn.pack_sequence(rows, enforce_sorted=False))
    assert all(torch.equal(a, b) for a, b in zip(rows, back, strict=True))


def test_lazy_module_becomes_its_class_and_loads_a_checkpoint() -> None:
    lazy = nn.LazyConv2d(4, 3)
    assert lazy.has_uninitialized_params()
    lazy(torch.rand(1, 5, 6, 6))
    assert type(lazy) is nn.Conv2d
    assert lazy.in_channels == 5
    other = nn.LazyConv2d(4, 3)
    other.load_state_dict(lazy.state_dict())
    assert torch.equal(other.weight, lazy.weight)


def test_clipping_leaves_small_gradients_alone_and_counts_none_as_absent() -> None:
    a, b = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
    a.grad = torch.tensor([0.3, 0.4])
    assert nn.utils.clip_grad_norm_([a, b], 1.0).item() == pytest.approx(0.5)
    np.testing.assert_allclose(a.grad.cpu().numpy(), [0.3, 0.4], rtol=1e-6)
    assert b.grad is None
    assert nn.utils.clip_grad_norm_([a], 1.0, norm_type=float("inf")).item() == pytest.approx(0.4)


def test_vector_and_parameters() -> None:
    layer = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(torch.arange(9.0), layer.parameters())
    assert layer.weight.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert layer.bias.tolist() == [6, 7, 8]


def test_weight_norm_both_ways_and_its_removal() -> None:
    for apply in (nn.utils.weight_norm, nn.utils.parametrizations.weight_norm):
        layer = nn.Linear(3, 2)
        weight = layer.weight.detach().clone()
        with pytest.warns() if apply is nn.utils.weight_norm else _nothing():
            apply(layer)
        np.testing.assert_allclose(layer.weight.detach().cpu().numpy(), weight.cpu().numpy(), rtol=1e-5)
    nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    np.testing.assert_allclose(layer.weight.detach().cpu().numpy(), weight.cpu().numpy(), rtol=1e-5)


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...


def test_spectral_norm_brings_the_largest_singular_value_to_one() -> None:
    for apply in (nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm):
        torch.manual_seed(0)
        layer = apply(nn.Linear(6, 5), n_power_iterations=30)
        layer(torch.rand(1, 6))
        assert np.linalg.norm(layer.weight.detach().cpu().numpy(), 2) == pytest.approx(1, rel=1e-3)


def test_fused_batch_norm_gives_the_same() -> None:
    conv, norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
    norm(conv(torch.rand(4, 3, 6, 6)))
    conv, norm = conv.eval(), norm.eval()
    x = torch.rand(2, 3, 6, 6)
    fused = nn.utils.fuse_conv_bn_eval(conv, norm)
    np.testing.assert_allclose(
        fused(x).detach().cpu().numpy(), norm(conv(x)).detach().cpu().numpy(), rtol=1e-4, atol=1e-5
    )


def test_parametrization_is_a_property_of_a_class_made_for_it() -> None:
    class Symmetric(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.triu() + x.triu(1).t()

        def right_inverse(self, x: torch.Tensor) -> torch.Tensor:
            return x.triu()

    layer = nn.utils.parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    assert torch.equal(layer.weight, layer.weight.t())
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    with nn.utils.parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight
    other = copy.deepcopy(layer)
    assert torch.equal(other.weight, layer.weight)
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)


def test_no_numpy_warning_reaches_the_user() -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        big = torch.tensor([-1e4, 1e4, 0.0], requires_grad=True)
        for name in ("sigmoid", "softplus", "logsigmoid", "elu", "silu", "mish", "gelu", "tanh", "selu"):
            getattr(F, name)(big).sum().backward()
        F.softmax(torch.tensor([[float("-inf"), 0.0]]), 1)
        F.cross_entropy(torch.tensor([[-1e30, 1e30]]), torch.tensor([0]))
        F.nll_loss(torch.zeros(1, 2), torch.tensor([-100]))
        F.mse_loss(torch.zeros(0), torch.zeros(0))
