"""What `draw_calls.py` draws from: values for each type of parameter, sizes that fit, names that it leaves alone."""

from __future__ import annotations

import re

NAMESPACES = {"t": "", "x": "", "F": "", "t.linalg": "linalg_", "t.fft": "fft_", "t.special": "special_"}
SKIPPED = re.compile(
    r"_|.*(sparse|quantize|fbgemm|miopen|cudnn|mkldnn|ccol|crow|(?<!r)row_indices|col_indices|names|_file$|dlpack|segment_reduce)"
    r"|(cuda|xpu|ipu|hpu|mtia|cpu|q_.*|int_repr|set_|data|backward|pin_memory|is_pinned|record_stream|storage.*|share_memory_?|rename_?|align_.*"
    r"|refine_names|get_device.*|set_.*|use_.*|manual_seed|seed|save|load|compile|cond|while_loop|result_type|init_.*|typename|untyped_storage"
    r"|unflatten_dense.*|register_hook|register_post.*|retain_grad|requires_grad_|module_load|apply_|map_|map2_|reinforce|type|new|tolist|numpy"
    r"|initial_seed|thread.*|fork|wait|import_.*|classproperty|get_.*|is_.*_enabled|assert_type|overload|vmap|gradgradcheck|gradcheck|handle_.*|has_.*)$"
)
SHAPES_ALONE = re.compile(r"(new_)?empty|resize|rand|normal|multinomial|poisson|.*dropout|rrelu|bernoulli")
"""Their values are random, or whatever was in memory."""

# What must not reach a user of readtorch; `difference` below also looks where the error was raised.
FOREIGN = re.compile(
    r"ufunc|(?<!from_)numpy(?!\()|ndarray|_array'|operands could not|cannot reshape array|inhomogeneous|object has no attribute|<lambda>|unsupported operand"
    r"|object is not (iterable|subscriptable|callable)|has no len\(\)|not supported between|values to unpack|(list|tuple|string) index out of range"
)

KINDS = ["f4"] * 6 + ["f8", "i8", "i8", "i4", "u1", "b1", "c8", "f2", "bf", "i2", "c16"]
SIZES = ["0d", "1", "3", "3", "4", "2x3", "2x3", "3x3", "3x3", "2x3x4", "2x2x3x3", "0", "2x0", "1x3", "2x1x4"]
FLAGS = ["", "", "_a", "_b", "_p", "_v", "_t"]
INDEX = re.compile(r"ind(ex|ices)|target|labels?|offsets|perm|.*_lengths")
LARGE = ["2**31", "-2**31-1", "2**63-1", "2**63", "-2**64", "100", "-100"]
ANYTHING = [
    "None",
    "True",
    "1.5",
    "'a'",
    "[]",
    "[1]",
    "(1, 2)",
    "1j",
    "f4_0d",
    "i8_0d",
    "f4_3",
    "object()",
    "t.float32",
    "{}",
    "-1",
    "0",
]
DTYPES = ["t.float32", "t.float64", "t.int64", "t.int32", "t.bool", "t.complex64", "t.float16", "t.bfloat16", "t.uint8"]

#: type of a parameter: ordinary values, odd values
VALUES: dict[str, tuple[list[str], list[str]]] = {
    "int": (["0", "1", "-1", "2", "3"], [*LARGE, "5", "-5", "1.0", "1.5", "True", "None", "'1'", "[1]", "(0, 1)", "i8_0d", "i8_1", "f4_0d", "1j"]),
    "float": (["0.5", "1.0", "2", "0.0", "-1.5", "1e-3"], ["inf", "nan", "-1", "2**70", "1j", "None", "'a'", "[1.]", "f4_0d", "f4_3", "True"]),
    "number": (["2", "0.5", "-1", "True", "0", "3.5", "-2"], ["1j", "2+0j", "inf", "nan", "300", "2**40", "2**63", "-2**65", "None", "'2'", "[2]", "f4_0d", "f4_2", "1e300"]),
    "bool": (["True", "False"], ["1", "0", "None", "1.0", "'True'", "b1_0d", "[True]"]),
    "ints": (["0", "1", "-1", "(0, 1)", "[1]", "[0, -1]", "(2, 3)", "[3, 2]", "2", "(1, 1, 1)", "[]"],
             ["()", "[0, 0]", "(5,)", "[-5]", "[1.0]", "[True]", "None", "f4_3", "i8_2", "'ab'", "[[1]]", "[None]", "(1, 'a')", "2.0", "t.Size([1])", "range(2)", "[i8_0d]", "2**63", "(2**40,)"]),
    "floats": (["[0.5]", "(1.0, 2.0)", "[1, 2]"], ["0.5", "None", "'a'", "[None]", "[1j]", "f4_2"]),
    "numbers": (["[1.0, 2.0]", "(2, 3)", "1.0"], ["None", "'a'", "[None]", "[1j]", "f4_2"]),
    "bools": (["[True]", "(True, False)"], ["True", "None", "[1]", "'a'"]),
    "dtype": (DTYPES, ["None", "float", "int", "bool", "'float32'", "1", "t.int8", "t.complex128", "t.complex32"]),
    "layout": (["t.strided", "None"], ["'strided'", "1"]),
    "device": (["'cpu'", "None", "t.device('cpu')"], ["'nope'", "1.5", "['cpu']", "'cpu:0'"]),
    "memory_format": (["t.contiguous_format", "t.preserve_format", "t.channels_last"], ["None", "1", "'a'", "t.channels_last_3d"]),
    "generator": (["None", "t.Generator()"], ["1", "'a'"]),
    "any": (["0", "1", "0.5", "None", "True", "-1"], ANYTHING),
}  # fmt: skip
WORDS = {
    "reduction": ["'none'", "'mean'", "'sum'"], "rounding_mode": ["None", "'floor'", "'trunc'"], "reduce": ["'sum'", "'prod'", "'mean'", "'amax'", "'amin'"],
    "mode": ["'reduced'", "'complete'", "'constant'", "'reflect'", "'nearest'", "'bilinear'", "'circular'", "'zeros'"], "norm": ["'ortho'", "'forward'"],
    "side": ["'left'", "'right'"], "indexing": ["'ij'", "'xy'"], "interpolation": ["'linear'", "'lower'", "'midpoint'"], "UPLO": ["'U'", "'L'"],
    "ord": ["'fro'", "'nuc'"], "approximate": ["'none'", "'tanh'"], "padding": ["'same'", "'valid'"], "driver": ["None", "'gels'", "'gelsd'"],
    "equation": ["'ij->ji'", "'ij,jk'", "'...i,...i->...'"], "pad_mode": ["'reflect'", "'constant'"], "padding_mode": ["'zeros'", "'border'"],
}  # fmt: skip
#: sizes of the tensors of functions for which any other are nearly always refused, in order
FITTING = {
    r"(F|t)\.conv1d": "2x2x5 3x2x2 3", r"(F|t)\.conv2d": "1x2x4x4 3x2x2x2 3", r"(F|t)\.conv3d": "1x2x3x3x3 3x2x2x2x2 3",
    r"(F|t)\.conv_transpose1d": "2x3x5 3x2x2 2", r"(F|t)\.conv_transpose2d": "1x3x4x4 3x2x2x2 2", r"(F|t)\.conv_transpose3d": "1x3x2x2x2 3x2x2x2x2 2",
    r".*\.(mm|matmul|mv|dot|vdot|bmm|baddbmm|addmm|addbmm|addmv|addr|ger|outer|inner|chain_matmul|multi_dot)_?": "3x3 3x3 3x3",
    r"(F|t)\.(bilinear)": "2x3 2x3 4x3x3 4", r"F\.linear": "2x3 4x3 4", r"F\.embedding(_bag)?": "4 5x3", r"F\.\w*_pool1d\w*|F\.lp_pool1d": "2x3x4",
    r"F\.\w*_pool2d\w*|F\.pixel_\w+|F\.interpolate|F\.upsample\w*|F\.unfold": "1x4x4x4", r"F\.\w*_pool3d\w*": "1x2x4x4x4", r"F\.fold": "1x4x4",
    r"(F|t)\.(batch_norm|instance_norm)": "2x3x4 3 3 3 3", r"F\.(group_norm|layer_norm|rms_norm)": "2x4x3 3 3", r"F\.scaled_dot\w+": "2x3x4 2x3x4 2x3x4",
    r"F\.(cross_entropy|nll_loss|multi_margin_loss)": "3x4 3 4", r"F\.grid_sample": "1x2x3x3 1x2x2x2", r"F\.affine_grid": "1x2x3",
    r"F\.(cosine_embedding_loss|triplet\w+)": "2x3 2x3 2x3", r"F\.ctc_loss": "4x2x3 2x2 2 2", r"F\.max_unpool2d": "1x1x2x2 1x1x2x2",
}  # fmt: skip
OUTS = ["t.empty(0)", "t.empty(0)", "t.empty(0, dtype=t.int64)", "t.empty(0, dtype=t.float64)", "t.empty(0, dtype=t.complex64)", "t.empty(5)", "{kind}_{size}_o", "{kind}_{size}_o",
        "{kind}_{size}_ot", "i4_{size}_o", "f8_{size}_o", "b1_{size}_o", "{kind}_1.expand(3)", "{kind}_8_o[::2]", "t.ones(2, 3, requires_grad=True)", "{given}", "{given}",
        "None", "1", "[]", "t.empty(0).T", "{kind}_6_o[1:4]", "t.empty(2, 3, device='meta')"]  # fmt: skip
