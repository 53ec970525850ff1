"""The parity table of nn.functional: one line per function and set of arguments."""

from __future__ import annotations

from typing import Any

from beside import Apart, Case, Fixed, Floats, Ints, case


def F(torch: Any) -> Any:
    return torch.nn.functional


def each(names: str, call: Any, *inputs: Any, **flags: Any) -> list[Case]:
    """The same call for several functions: `call(function, *tensors)`."""
    return [
        case(name, lambda t, *x, name=name: call(getattr(F(t), name), *x), *inputs, **flags) for name in names.split()
    ]


IMAGE = (2, 4, 7, 6)
CONVOLUTIONS = [
    case("conv1d", lambda t, *x: F(t).conv1d(*x, 2, 1), (2, 3, 9), (4, 3, 3), (4,)),
    case("conv1d dilated", lambda t, *x: F(t).conv1d(*x, dilation=2), (2, 3, 9), (4, 3, 3)),
    case("conv1d same, even kernel", lambda t, *x: F(t).conv1d(*x, padding="same"), (2, 3, 9), (4, 3, 4)),
    case("conv1d unbatched", lambda t, *x: F(t).conv1d(*x), (3, 9), (4, 3, 3), (4,)),
    case("conv2d", lambda t, *x: F(t).conv2d(*x, padding=1), IMAGE, (5, 4, 3, 3), (5,)),
    case("conv2d strided", lambda t, *x: F(t).conv2d(*x, stride=(2, 3), padding=(1, 0)), IMAGE, (5, 4, 3, 2), (5,)),
    case("conv2d same, dilated", lambda t, *x: F(t).conv2d(*x, padding="same", dilation=2), IMAGE, (5, 4, 3, 3)),
    case("conv2d valid", lambda t, *x: F(t).conv2d(*x, padding="valid"), IMAGE, (5, 4, 3, 3)),
    case("conv2d 1x1", lambda t, *x: F(t).conv2d(*x), (2, 6, 9, 8), (5, 6, 1, 1), (5,)),
    case("conv2d 1x1 strided", lambda t, *x: F(t).conv2d(*x, stride=2), (2, 6, 9, 8), (5, 6, 1, 1)),
    case("conv2d one channel", lambda t, *x: F(t).conv2d(*x), (2, 1, 9, 8), (5, 1, 5, 5)),
    case("conv2d many channels", lambda t, *x: F(t).conv2d(*x, padding=1), (2, 32, 4, 4), (33, 32, 3, 3)),
    case("conv2d more padding than kernel", lambda t, *x: F(t).conv2d(*x, padding=3), (1, 4, 4, 4), (5, 4, 2, 2)),
    case("conv2d grouped", lambda t, *x: F(t).conv2d(*x, padding=1, groups=2), IMAGE, (6, 2, 3, 3), (6,)),
    case("conv2d depthwise", lambda t, *x: F(t).conv2d(*x, stride=2, padding=1, groups=4), IMAGE, (4, 1, 3, 3), (4,)),
    case("conv2d depthwise, multiplied", lambda t, *x: F(t).conv2d(*x, groups=4), IMAGE, (8, 1, 3, 3)),
    case("conv3d", lambda t, *x: F(t).conv3d(*x, stride=(1, 2, 1), padding=1), (1, 2, 4, 5, 6), (3, 2, 2, 3, 3), (3,)),
    case("conv_transpose1d", lambda t, *x: F(t).conv_transpose1d(*x, 2, 1, 1), (2, 3, 5), (3, 4, 3), (4,)),
    case("conv_transpose2d", lambda t, *x: F(t).conv_transpose2d(*x, 2, 1, 1), (2, 4, 4, 3), (4, 5, 3, 3), (5,)),
    case(
        "conv_transpose2d grouped, dilated",
        lambda t, *x: F(t).conv_transpose2d(*x, stride=2, output_padding=1, groups=2, dilation=2),
        (2, 4, 4, 3),
        (4, 3, 3, 2),
    ),
    case("conv_transpose3d", lambda t, *x: F(t).conv_transpose3d(*x, 2), (1, 2, 2, 3, 2), (2, 3, 2, 2, 2), (3,)),
    case("linear", lambda t, *x: F(t).linear(*x), (4, 3), (5, 3), (5,)),
    case("linear 3d", lambda t, *x: F(t).linear(*x), (2, 4, 3), (5, 3), (5,)),
    case("linear 1d, no bias", lambda t, *x: F(t).linear(*x), (3,), (5, 3)),
    case("bilinear", lambda t, *x: F(t).bilinear(*x), (4, 3), (4, 2), (5, 3, 2), (5,)),
]

POOLS = [
    case("max_pool1d", lambda t, x: F(t).max_pool1d(x, 3, 2, 1), Apart((2, 3, 9))),
    case("max_pool2d", lambda t, x: F(t).max_pool2d(x, 2), Apart((2, 3, 6, 8))),
    case("max_pool2d overlapping", lambda t, x: F(t).max_pool2d(x, 3, 2, 1), Apart((2, 3, 7, 8))),
    case("max_pool2d ceil", lambda t, x: F(t).max_pool2d(x, 3, 2, 1, 1, True), Apart((2, 3, 6, 7))),
    case("max_pool2d dilated", lambda t, x: F(t).max_pool2d(x, 2, 1, 0, 2), Apart((2, 3, 6, 7))),
    case("max_pool2d with leftover", lambda t, x: F(t).max_pool2d(x, 2), Apart((2, 3, 7, 5))),
    case("max_pool2d indices", lambda t, x: F(t).max_pool2d(x, 3, 2, 1, return_indices=True), Apart((2, 3, 7, 8))),
    case("max_pool2d unbatched", lambda t, x: F(t).max_pool2d(x, 2), Apart((3, 6, 8))),
    case("max_pool3d", lambda t, x: F(t).max_pool3d(x, 2, 2, 1), Apart((1, 2, 4, 5, 6))),
    case("avg_pool1d", lambda t, x: F(t).avg_pool1d(x, 3, 2, 1), (2, 3, 9)),
    case("avg_pool2d", lambda t, x: F(t).avg_pool2d(x, 2), (2, 3, 6, 8)),
    case("avg_pool2d padded", lambda t, x: F(t).avg_pool2d(x, 3, 2, 1), (2, 3, 6, 8)),
    case("avg_pool2d ceil, without padding", lambda t, x: F(t).avg_pool2d(x, 3, 2, 1, True, False), (2, 3, 6, 8)),
    case("avg_pool2d ceil", lambda t, x: F(t).avg_pool2d(x, 3, 2, 1, True), (2, 3, 6, 8)),
    case("avg_pool2d divisor", lambda t, x: F(t).avg_pool2d(x, 2, divisor_override=3), (2, 3, 6, 8)),
    case("avg_pool3d", lambda t, x: F(t).avg_pool3d(x, 2), (1, 2, 4, 5, 6)),
    case("adaptive_avg_pool1d", lambda t, x: F(t).adaptive_avg_pool1d(x, 3), (2, 3, 7)),
    case("adaptive_avg_pool2d global", lambda t, x: F(t).adaptive_avg_pool2d(x, 1), (2, 3, 7, 5)),
    case("adaptive_avg_pool2d", lambda t, x: F(t).adaptive_avg_pool2d(x, (3, None)), (2, 3, 7, 5)),
    case("adaptive_avg_pool2d even", lambda t, x: F(t).adaptive_avg_pool2d(x, 2), (2, 3, 6, 4)),
    case("adaptive_avg_pool3d", lambda t, x: F(t).adaptive_avg_pool3d(x, (2, 3, 1)), (1, 2, 4, 5, 6)),
    case("adaptive_max_pool1d", lambda t, x: F(t).adaptive_max_pool1d(x, 3), Apart((2, 3, 7))),
    case("adaptive_max_pool2d", lambda t, x: F(t).adaptive_max_pool2d(x, (3, 2), True), Apart((2, 3, 7, 5))),
    case("adaptive_max_pool3d", lambda t, x: F(t).adaptive_max_pool3d(x, 2), Apart((1, 2, 4, 5, 6))),
    case(
        "max_unpool2d",
        lambda t, x: F(t).max_unpool2d(*F(t).max_pool2d(x, 2, return_indices=True), 2),
        Apart((2, 3, 4, 6)),
    ),
    case("lp_pool2d", lambda t, x: F(t).lp_pool2d(x, 2, 2), Floats((2, 3, 6, 8), 0.1)),
]

ACTIVATIONS = [
    *each(
        "relu relu6 hardtanh leaky_relu elu selu celu silu mish sigmoid tanh tanhshrink softsign "
        "gelu softplus logsigmoid hardshrink softshrink",
        lambda f, x: f(x),
        (5, 4),
    ),
    # upstream multiplies by a sixth in single precision
    *each("hardsigmoid hardswish", lambda f, x: f(x), (5, 4), tolerance=20),
    case("relu of a scalar", lambda t, x: F(t).relu(x), ()),
    case("gelu tanh", lambda t, x: F(t).gelu(x, approximate="tanh"), (5, 4)),
    case("threshold", lambda t, x: F(t).threshold(x, 0.2, -1.0), (5, 4)),
    case("hardtanh bounds", lambda t, x: F(t).hardtanh(x, -0.3, 0.4), (5, 4)),
    case("elu alpha", lambda t, x: F(t).elu(x, 1.7), (5, 4)),
    case("celu alpha", lambda t, x: F(t).celu(x, 0.7), (5, 4)),
    case("softplus beta", lambda t, x: F(t).softplus(x, 3.0, 2.0), (5, 4)),
    case("prelu", lambda t, *x: F(t).prelu(*x), (5, 4, 3), (1,)),
    case("prelu per channel", lambda t, *x: F(t).prelu(*x), (5, 4, 3), (4,)),
    case("glu", lambda t, x: F(t).glu(x, 1), (5, 4)),
    case("rrelu in evaluation", lambda t, x: F(t).rrelu(x), (5, 4)),
    case("softmax", lambda t, x: F(t).softmax(x, 1), (5, 4, 3)),
    case("softmin", lambda t, x: F(t).softmin(x, -1), (5, 4, 3)),
    case("softmax to float64", lambda t, x: F(t).softmax(x, 0, dtype=t.float64), (5, 4)),
    case("log_softmax", lambda t, x: F(t).log_softmax(x, 1), (5, 4, 3)),
    case("log_softmax of a scalar", lambda t, x: F(t).log_softmax(x, 0), ()),
    case("softmax of large numbers", lambda t, x: F(t).softmax(x * 1000, 1), (5, 4), tolerance=1e3),
]

NORMS = [
    case(
        "batch_norm", lambda t, *x: F(t).batch_norm(x[0], None, None, *x[1:], training=True), (5, 3, 4, 4), (3,), (3,)
    ),
    case(
        "batch_norm of rows", lambda t, *x: F(t).batch_norm(x[0], None, None, *x[1:], training=True), (5, 3), (3,), (3,)
    ),
    case("batch_norm plain", lambda t, x: F(t).batch_norm(x, None, None, training=True), (5, 3, 4)),
    case(
        "batch_norm in evaluation",
        lambda t, x, w, b: F(t).batch_norm(x, t.tensor([0.1, 0.2, 0.3]).to(x), t.tensor([1.0, 2.0, 3.0]).to(x), w, b),
        (5, 3, 4),
        (3,),
        (3,),
    ),
    case("layer_norm", lambda t, *x: F(t).layer_norm(x[0], (4,), *x[1:]), (5, 3, 4), (4,), (4,)),
    case(
        "layer_norm of two dimensions", lambda t, *x: F(t).layer_norm(x[0], (3, 4), *x[1:]), (5, 3, 4), (3, 4), (3, 4)
    ),
    case("layer_norm plain", lambda t, x: F(t).layer_norm(x, (4,)), (5, 4)),
    case("layer_norm of everything", lambda t, x: F(t).layer_norm(x, (5, 4)), (5, 4)),
    case("rms_norm", lambda t, *x: F(t).rms_norm(x[0], (4,), x[1]), (5, 3, 4), (4,)),
    case("rms_norm eps", lambda t, x: F(t).rms_norm(x, (4,), eps=0.1), (5, 3, 4)),
    case("group_norm", lambda t, *x: F(t).group_norm(x[0], 2, *x[1:]), (3, 4, 5), (4,), (4,)),
    case("group_norm plain", lambda t, x: F(t).group_norm(x, 4), (3, 4, 5, 2)),
    case("instance_norm", lambda t, *x: F(t).instance_norm(x[0], weight=x[1], bias=x[2]), (3, 4, 5, 2), (4,), (4,)),
    case("local_response_norm", lambda t, x: F(t).local_response_norm(x, 3), (3, 4, 5, 2)),
    case("normalize", lambda t, x: F(t).normalize(x, dim=1), (3, 4)),
]

LOSSES = [
    *each("mse_loss l1_loss smooth_l1_loss huber_loss", lambda f, x, y: f(x, y), (5, 4), (5, 4)),
    *each("soft_margin_loss", lambda f, x, y: f(x, y.detach()), (5, 4), Fixed([[1.0, -1, 1, -1]] * 5)),
    case("mse_loss sum", lambda t, *x: F(t).mse_loss(*x, reduction="sum"), (5, 4), (5, 4)),
    case("mse_loss none", lambda t, *x: F(t).mse_loss(*x, reduction="none"), (5, 4), (5, 4)),
    case("mse_loss weighted", lambda t, x, y, w: F(t).mse_loss(x, y, weight=w), (5, 4), (5, 4), Floats((5, 4), 0.1)),
    case("smooth_l1_loss beta", lambda t, *x: F(t).smooth_l1_loss(*x, beta=0.3), (5, 4), (5, 4)),
    case("huber_loss delta", lambda t, *x: F(t).huber_loss(*x, delta=0.3), (5, 4), (5, 4)),
    case("nll_loss", lambda t, x, y: F(t).nll_loss(x, y), (5, 4), Ints(4, (5,))),
    case(
        "nll_loss weighted",
        lambda t, x, w, y: F(t).nll_loss(x, y, w.detach()),
        (5, 4),
        Floats((4,), 0.1),
        Ints(4, (5,)),
    ),
    case("nll_loss none", lambda t, x, y: F(t).nll_loss(x, y, reduction="none"), (5, 4), Ints(4, (5,))),
    case("nll_loss 2d", lambda t, x, y: F(t).nll_loss(x, y), (2, 4, 3, 3), Ints(4, (2, 3, 3))),
    case("nll_loss ignoring", lambda t, x, y: F(t).nll_loss(x, y, ignore_index=1), (5, 4), Fixed([0, 1, 2, 1, 3])),
    case("nll_loss of one", lambda t, x, y: F(t).nll_loss(x, y), (4,), Fixed(2)),
    case("cross_entropy", lambda t, x, y: F(t).cross_entropy(x, y), (5, 4), Ints(4, (5,))),
    case("cross_entropy 2d", lambda t, x, y: F(t).cross_entropy(x, y), (2, 4, 3, 3), Ints(4, (2, 3, 3))),
    case(
        "cross_entropy smoothed, weighted, ignoring",
        lambda t, x, w, y: F(t).cross_entropy(x, y, w.detach(), ignore_index=1, label_smoothing=0.2),
        (5, 4),
        Floats((4,), 0.1),
        Fixed([0, 1, 2, 1, 3]),
    ),
    case(
        "cross_entropy smoothed", lambda t, x, y: F(t).cross_entropy(x, y, label_smoothing=0.2), (5, 4), Ints(4, (5,))
    ),
    case("cross_entropy of probabilities", lambda t, *x: F(t).cross_entropy(*x), (5, 4), Floats((5, 4), 0.0)),
    case(
        "cross_entropy of smoothed probabilities",
        lambda t, x, y, w: F(t).cross_entropy(x, y, w.detach(), reduction="sum", label_smoothing=0.1),
        (5, 4),
        Floats((5, 4), 0.0),
        Floats((4,), 0.1),
    ),
    case(
        "binary_cross_entropy",
        lambda t, x, y, w: F(t).binary_cross_entropy(x, y.detach(), w.detach()),
        Floats((5, 4), 0.1, 0.9),
        Floats((5, 4), 0.0),
        Floats((5, 4), 0.1),
    ),
    case(
        "binary_cross_entropy_with_logits",
        lambda t, x, y, w, p: F(t).binary_cross_entropy_with_logits(x, y, w.detach(), pos_weight=p.detach()),
        (5, 4),
        Floats((5, 4), 0.0),
        Floats((5, 4), 0.1),
        Floats((4,), 0.1),
    ),
    case(
        "binary_cross_entropy_with_logits sum",
        lambda t, x, y: F(t).binary_cross_entropy_with_logits(x, y, reduction="sum"),
        (5, 4),
        Floats((5, 4), 0.0),
    ),
    case("kl_div", lambda t, *x: F(t).kl_div(*x, reduction="batchmean"), (5, 4), Floats((5, 4), 0.1)),
    case("kl_div log target", lambda t, *x: F(t).kl_div(*x, reduction="sum", log_target=True), (5, 4), (5, 4)),
    case("poisson_nll_loss", lambda t, *x: F(t).poisson_nll_loss(*x), (5, 4), Floats((5, 4), 0.1)),
    case("poisson_nll_loss full", lambda t, *x: F(t).poisson_nll_loss(*x, full=True), (5, 4), Floats((5, 4), 0.5, 4)),
    case("gaussian_nll_loss", lambda t, *x: F(t).gaussian_nll_loss(*x, full=True), (5, 4), (5, 4), Floats((5, 4), 0.1)),
    case(
        "margin_ranking_loss",
        lambda t, x, y, s: F(t).margin_ranking_loss(x, y, s.detach(), 0.3),
        (5,),
        (5,),
        Fixed([1.0, -1, 1, -1, 1]),
    ),
    case(
        "hinge_embedding_loss",
        lambda t, x, s: F(t).hinge_embedding_loss(x, s.detach()),
        (5,),
        Fixed([1.0, -1, 1, -1, 1]),
    ),
    case(
        "cosine_embedding_loss",
        lambda t, x, y, s: F(t).cosine_embedding_loss(x, y, s.detach(), 0.1),
        (5, 4),
        (5, 4),
        Fixed([1.0, -1, 1, -1, 1]),
    ),
    case("triplet_margin_loss", lambda t, *x: F(t).triplet_margin_loss(*x, swap=True), (5, 4), (5, 4), (5, 4)),
    case(
        "multi_margin_loss",
        lambda t, x, y: F(t).multi_margin_loss(x, y),
        (5, 4),
        Ints(4, (5,)),
    ),
    case(
        "multi_margin_loss squared",
        lambda t, x, w, y: F(t).multi_margin_loss(x, y, p=2, margin=0.5, weight=w.detach()),
        (5, 4),
        Floats((4,), 0.1),
        Ints(4, (5,)),
    ),
    case(
        "multilabel_margin_loss",
        lambda t, x, y: F(t).multilabel_margin_loss(x, y),
        (2, 4),
        Fixed([[3, 0, -1, 1], [2, -1, 0, 0]]),
    ),
    case(
        "multilabel_soft_margin_loss", lambda t, *x: F(t).multilabel_soft_margin_loss(*x), (5, 4), Floats((5, 4), 0.0)
    ),
]

REST = [
    case("embedding", lambda t, w, i: F(t).embedding(i, w), (5, 3), Ints(5, (2, 4))),
    case("embedding padding", lambda t, w, i: F(t).embedding(i, w, padding_idx=1), (5, 3), Fixed([1, 0, 1, 4])),
    case(
        "embedding by frequency",
        lambda t, w, i: F(t).embedding(i, w, scale_grad_by_freq=True),
        (5, 3),
        Fixed([1, 0, 1, 4]),
    ),
    *[
        case(
            f"embedding_bag {mode}",
            lambda t, w, i, o, mode=mode: F(t).embedding_bag(i, w, o, mode=mode),
            (5, 3),
            Fixed([1, 0, 1, 4, 2]),
            Fixed([0, 2, 2]),
        )
        for mode in ("sum", "mean", "max")
    ],
    case(
        "embedding_bag weighted",
        lambda t, w, s, i: F(t).embedding_bag(i, w, mode="sum", per_sample_weights=s),
        (5, 3),
        (2, 4),
        Ints(5, (2, 4)),
    ),
    case("pad", lambda t, x: F(t).pad(x, (1, 2, 0, 3), value=0.5), (2, 3, 4)),
    case("pad crop", lambda t, x: F(t).pad(x, (-1, 2, 1, -2)), (2, 3, 4)),
    case("pad reflect", lambda t, x: F(t).pad(x, (2, 1, 1, 0), mode="reflect"), (2, 3, 4, 5)),
    case("pad replicate", lambda t, x: F(t).pad(x, (2, 1, 4, 0), mode="replicate"), (2, 3, 4, 5)),
    case("pad circular", lambda t, x: F(t).pad(x, (2, 1, 3, 0), mode="circular"), (2, 3, 4, 5)),
    case("pad reflect 1d", lambda t, x: F(t).pad(x, (2, 3), mode="reflect"), (3, 5)),
    case("pad replicate 3d", lambda t, x: F(t).pad(x, (2, 3, 1, 0, 0, 4), mode="replicate"), (1, 2, 3, 3, 4)),
    case("pixel_shuffle", lambda t, x: F(t).pixel_shuffle(x, 2), (2, 8, 3, 2)),
    case("pixel_unshuffle", lambda t, x: F(t).pixel_unshuffle(x, 2), (2, 2, 4, 6)),
    case("channel_shuffle", lambda t, x: F(t).channel_shuffle(x, 2), (2, 6, 3, 2)),
    case("unfold", lambda t, x: F(t).unfold(x, (2, 3), padding=1, stride=2), (2, 3, 5, 6)),
    case("fold", lambda t, x: F(t).fold(x, (4, 5), 2, padding=1, stride=2), (2, 12, 9)),
    case("pairwise_distance", lambda t, *x: F(t).pairwise_distance(*x), (5, 4), (5, 4)),
    case("pairwise_distance p", lambda t, *x: F(t).pairwise_distance(*x, p=3.0, keepdim=True), (5, 4), (5, 4)),
    case("cosine_similarity", lambda t, *x: F(t).cosine_similarity(*x), (5, 4), (5, 4)),
    case("one_hot", lambda t, i: F(t).one_hot(i, 6), Ints(5, (2, 3)), grad=False),
    case("interpolate nearest", lambda t, x: F(t).interpolate(x, scale_factor=2), (2, 3, 4, 5)),
    case("interpolate nearest, odd", lambda t, x: F(t).interpolate(x, size=(7, 3)), (2, 3, 4, 5)),
    case(
        "interpolate nearest-exact", lambda t, x: F(t).interpolate(x, size=(7, 3), mode="nearest-exact"), (2, 3, 4, 5)
    ),
    case("interpolate linear", lambda t, x: F(t).interpolate(x, scale_factor=1.7, mode="linear"), (2, 3, 5)),
    case("interpolate bilinear", lambda t, x: F(t).interpolate(x, size=(7, 3), mode="bilinear"), (2, 3, 4, 5)),
    case(
        "interpolate bilinear, corners",
        lambda t, x: F(t).interpolate(x, size=(7, 3), mode="bilinear", align_corners=True),
        (2, 3, 4, 5),
    ),
    case(
        "interpolate bilinear, antialias",
        lambda t, x: F(t).interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
        (2, 3, 9, 8),
    ),
    case("interpolate bicubic", lambda t, x: F(t).interpolate(x, size=(7, 3), mode="bicubic"), (2, 3, 4, 5)),
    case(
        "interpolate trilinear",
        lambda t, x: F(t).interpolate(x, scale_factor=2, mode="trilinear"),
        (1, 2, 2, 3, 2),
    ),
    case("interpolate area", lambda t, x: F(t).interpolate(x, size=(2, 3), mode="area"), (2, 3, 4, 5)),
    case(
        "attention",
        lambda t, *x: F(t).scaled_dot_product_attention(*x),
        (2, 3, 4, 8),
        (2, 3, 5, 8),
        (2, 3, 5, 6),
    ),
    case(
        "attention causal",
        lambda t, *x: F(t).scaled_dot_product_attention(*x, is_causal=True),
        (2, 4, 8),
        (2, 4, 8),
        (2, 4, 6),
    ),
    case(
        "attention masked, scaled",
        lambda t, q, k, v, m: F(t).scaled_dot_product_attention(q, k, v, m > 0, scale=0.3),
        (2, 4, 8),
        (2, 5, 8),
        (2, 5, 6),
        Fixed([[1, 0, 1, 1, 0]] * 4),
    ),
]

SAMPLING = [
    *[
        case(
            f"grid_sample {mode}, {padding}{', corners' if corners else ''}",
            # upstream's gradient of the grid is zero under `nearest`, here there is none
            lambda t, x, g, m=mode, p=padding, c=corners: F(t).grid_sample(
                x, g.detach() if m == "nearest" else g, m, p, c
            ),
            (2, 3, 5, 4),
            Floats((2, 3, 4, 2), -1.3, 1.3),
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (True, False)
    ],
    case(
        "grid_sample 3d",
        lambda t, *x: F(t).grid_sample(*x, align_corners=False),
        (1, 2, 3, 4, 3),
        Floats((1, 2, 3, 2, 3), -1.2, 1.2),
    ),
    case("affine_grid", lambda t, x: F(t).affine_grid(x, [2, 1, 3, 4], align_corners=False), (2, 2, 3)),
    case("affine_grid 3d", lambda t, x: F(t).affine_grid(x, [2, 1, 3, 4, 2], align_corners=True), (2, 3, 4)),
    case(
        "fractional_max_pool2d",
        lambda t, x, r: F(t).fractional_max_pool2d(x, 2, (3, 4), None, True, r.detach()),
        Apart((2, 3, 7, 8)),
        Floats((2, 3, 2), 0.0),
    ),
    case(
        "fractional_max_pool3d",
        lambda t, x, r: F(t).fractional_max_pool3d(x, 2, None, 0.5, False, r.detach()),
        Apart((1, 2, 5, 6, 7)),
        Floats((1, 2, 3), 0.0),
    ),
    *[
        case(
            f"ctc_loss {reduction}",
            lambda t, x, y, r=reduction: F(t).ctc_loss(x.log_softmax(2), y, (7, 5, 6), (3, 2, 0), reduction=r),
            (7, 3, 5),
            Ints(5, (3, 3), 1),
        )
        for reduction in ("none", "mean", "sum")
    ],
    case(
        "ctc_loss of repeated labels in one row",
        lambda t, x, y: F(t).ctc_loss(x.log_softmax(2), y, t.tensor([7, 7]), t.tensor([3, 2])),
        (7, 2, 5),
        Fixed([2, 2, 1, 3, 3]),
    ),
    case(
        "ctc_loss of the impossible",
        lambda t, x, y: F(t).ctc_loss(x.log_softmax(2), y, (2, 7), (3, 2), zero_infinity=True),
        (7, 2, 5),
        Fixed([[2, 2, 1], [3, 3, 1]]),
    ),
]

CASES = [*CONVOLUTIONS, *POOLS, *ACTIVATIONS, *NORMS, *LOSSES, *REST, *SAMPLING]
BY_NAME = {entry.name: entry for entry in CASES}
assert len(BY_NAME) == len(CASES)


EMPTY = [
    case("conv2d", lambda t, *x: F(t).conv2d(*x), (0, 3, 4, 4), (5, 3, 3, 3), (5,)),
    case("linear", lambda t, *x: F(t).linear(*x), (0, 3), (5, 3), (5,)),
    case("max_pool2d", lambda t, x: F(t).max_pool2d(x, 2), (0, 3, 4, 4)),
    case("avg_pool2d", lambda t, x: F(t).avg_pool2d(x, 2), (0, 3, 4, 4)),
    case("relu", lambda t, x: F(t).relu(x), (0, 3)),
    case("softmax", lambda t, x: F(t).softmax(x, 1), (0, 3)),
    case("log_softmax over nothing", lambda t, x: F(t).log_softmax(x, 1), (3, 0)),
    case("layer_norm", lambda t, *x: F(t).layer_norm(x[0], (3,), *x[1:]), (0, 3), (3,), (3,)),
    case("mse_loss", lambda t, *x: F(t).mse_loss(*x), (0, 3), (0, 3)),
    case("nll_loss", lambda t, x, y: F(t).nll_loss(x, y), (0, 3), Ints(3, (0,))),
    case("embedding", lambda t, w, i: F(t).embedding(i, w), (5, 3), Ints(5, (0,))),
    case("pad", lambda t, x: F(t).pad(x, (1, 1)), (0, 3)),
]
