"""Modules, hooks, containers, files: small programs that leave a result in `r`, run on PyTorch 2.13.0 and on readtorch.

Result, type of the exception and categories of warnings are the same; a message shares at least two fifths of the words.
"""

from __future__ import annotations

import io
import re
import warnings
from typing import Any

import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

SAVED = "def sv(o, **k):\n    b = io.BytesIO(); torch.save(o, b, **k); b.seek(0); return b\n"
PARAMETRIZE = "P = nn.utils.parametrize\nclass D(nn.Module):\n    def forward(self, w): return 2 * w\nclass I(D):\n    def right_inverse(self, w): return w / 2\n"
CALL = "fc = torch.func.functional_call\n"

CASES = {
    "hook handle remove twice": "m = nn.Identity(); h = m.register_forward_hook(lambda *a: None); h.remove(); h.remove(); r = len(m._forward_hooks)",
    "hook handle as context": "m = nn.Identity(); n = []\nwith m.register_forward_pre_hook(lambda *a: n.append(1)): m(1)\nm(1); r = n",
    "handle pickles": "import pickle\nm = nn.Identity(); h = m.register_forward_hook(print); r = h.__getstate__()[1] == h.id",
    "deepcopy keeps hooks shared": "import copy\nn = []; m = nn.Linear(1, 1); h = m.register_forward_hook(lambda *a: n.append(1)); c = copy.deepcopy(m); c(torch.ones(1, 1)); h.remove(); c(torch.ones(1,1)); m(torch.ones(1,1)); r = n",
    "pre hook replaces by non tuple": "m = nn.Identity(); m.register_forward_pre_hook(lambda m, a: 5); r = m(1)",
    "forward hook replaces by False": "m = nn.Identity(); m.register_forward_hook(lambda m, a, o: False); r = m(1)",
    "backward pre hook changes grad": "m = nn.Linear(2, 1, bias=False); m.register_full_backward_pre_hook(lambda m, g: (g[0] * 3,)); x = torch.ones(1, 2); m(x).sum().backward(); r = m.weight.grad",
    "backward pre hook wrong length": "m = nn.Linear(2, 1); m.register_full_backward_pre_hook(lambda m, g: (g[0], g[0])); m(torch.ones(1, 2, requires_grad=True)).sum().backward()",
    "full bw hook wrong length": "m = nn.Linear(2, 1); m.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0])); m(torch.ones(1, 2, requires_grad=True)).sum().backward()",
    "full bw hook replaces": "m = nn.Linear(2, 1, bias=False); m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0 + 7,)); x = torch.ones(1, 2, requires_grad=True); m(x).sum().backward(); r = [x.grad, m.weight.grad]",
    "full bw hook prepend": "n = []; m = nn.Linear(1, 1); m.register_full_backward_hook(lambda *a: n.append(1)); m.register_full_backward_hook(lambda *a: n.append(2), prepend=True); m(torch.ones(1, 1, requires_grad=True)).sum().backward(); r = n",
    "always_call on error": "n = []\nclass A(nn.Module):\n    def forward(self, x): raise KeyError('a')\nm = A(); m.register_forward_hook(lambda *a: n.append(a[2]), always_call=True); m.register_forward_hook(lambda *a: n.append('no'))\ntry: m(1)\nexcept KeyError: pass\nr = n",
    "always_call hook itself raises": "class A(nn.Module):\n    def forward(self, x): raise KeyError('a')\nm = A()\ndef h(*a): raise ValueError('in hook')\nm.register_forward_hook(h, always_call=True); m(1)",
    "global forward hook order": "n = []; M = nn.modules.module; a = M.register_module_forward_pre_hook(lambda *x: n.append('gp')); b = M.register_module_forward_hook(lambda *x: n.append('gf')); m = nn.Identity(); m.register_forward_hook(lambda *x: n.append('f')); m.register_forward_pre_hook(lambda *x: n.append('p')); m(1); a.remove(); b.remove(); m(1); r = n",
    "global registration hook": "n = []; M = nn.modules.module; a = M.register_module_parameter_registration_hook(lambda m, k, p: n.append(k)); b = M.register_module_module_registration_hook(lambda m, k, c: n.append(k)); c = M.register_module_buffer_registration_hook(lambda m, k, t: n.append(k)); nn.Sequential(nn.BatchNorm1d(1)); [h.remove() for h in (a, b, c)]; nn.Linear(1, 1); r = n",
    "global param hook replaces": "M = nn.modules.module; a = M.register_module_parameter_registration_hook(lambda m, k, p: nn.Parameter(p * 0 + 2) if p is not None else None); m = nn.Linear(1, 2); a.remove(); r = [m.weight, m.bias]",
    "state dict hook returns": "m = nn.Linear(1, 1); m._register_state_dict_hook(lambda m, d, p, l: {'x': 1}); r = m.state_dict()",
    "state dict post hook returns": "m = nn.Linear(1, 1); m.register_state_dict_post_hook(lambda m, d, p, l: {'x': 1}); m.state_dict()",
    "state dict post+private": "m = nn.Linear(1, 1); h = lambda m, d, p, l: None; m._register_state_dict_hook(h); m.register_state_dict_post_hook(h)",
    "state dict pre hook": "n = []; m = nn.Sequential(nn.Linear(1, 1)); m[0].register_state_dict_pre_hook(lambda m, p, k: n.append((p, k))); m.state_dict(prefix='q.', keep_vars=True); r = n",
    "load pre hook": "n = []; m = nn.Sequential(nn.Linear(1, 1)); m[0].register_load_state_dict_pre_hook(lambda mod, sd, p, lm, s, mk, uk, em: n.append((p, s, sorted(sd)))); m.load_state_dict(m.state_dict()); r = n",
    "load post hook": "m = nn.Linear(1, 1)\ndef h(mod, keys): keys.missing_keys.clear()\nm.register_load_state_dict_post_hook(h); r = list(m.load_state_dict({}, strict=True).missing_keys)",
    "load post hook returns": "m = nn.Linear(1, 1); m.register_load_state_dict_post_hook(lambda mod, keys: 1); m.load_state_dict(m.state_dict())",
    "load nonstrict result": "m = nn.Linear(1, 1); r = m.load_state_dict({'weight': torch.ones(1, 1), 'z': torch.ones(1)}, strict=False); r = [r.missing_keys, r.unexpected_keys, repr(r)]",
    "load keeps requires_grad False": "m = nn.Linear(1, 1); m.weight.requires_grad_(False); s = {k: v.clone().requires_grad_() for k, v in nn.Linear(1, 1).state_dict().items()}; m.load_state_dict(s); r = [m.weight.requires_grad, m.bias.requires_grad]",
    "load assign requires_grad": "m = nn.Linear(1, 1); m.weight.requires_grad_(False); s = {k: v.clone() for k, v in nn.Linear(1, 1).state_dict().items()}; m.load_state_dict(s, assign=True); r = [m.weight.requires_grad, m.bias.requires_grad, type(m.weight).__name__]",
    "load assign buffer": "m = nn.BatchNorm1d(2); s = m.state_dict(); s['running_mean'] = torch.ones(2, dtype=torch.float64); m.load_state_dict(s, assign=True); r = [m.running_mean, m.running_mean is s['running_mean']]",
    "load wrong type value": "m = nn.Linear(1, 1); m.load_state_dict({'weight': 3, 'bias': torch.ones(1)})",
    "load copies error": "m = nn.Linear(2, 1); m.load_state_dict({'weight': torch.ones(1, 2).to_sparse() if False else torch.ones(2, 1), 'bias': torch.ones(1)})",
    "load many errors": "m = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1)); m.load_state_dict({'0.weight': torch.ones(3), '1.weight': torch.ones(1), 'zz': torch.ones(1)})",
    "state dict destination": "import collections\nd = collections.OrderedDict(); m = nn.Linear(1, 1); r = [m.state_dict(destination=d) is d, hasattr(d, '_metadata')]",
    "extra state": "class A(nn.Module):\n    def get_extra_state(self): return {'v': 1}\n    def set_extra_state(self, s): self.got = s\nm = nn.Sequential(A()); s = m.state_dict(); n = nn.Sequential(A()); q = n.load_state_dict(s); r = [dict(s), n[0].got, repr(q)]",
    "extra state missing": "class A(nn.Module):\n    def get_extra_state(self): return 1\n    def set_extra_state(self, s): self.got = s\nA().load_state_dict({})",
    "extra state unexpected": "nn.Identity().load_state_dict({'_extra_state': 1})",
    "bn old version": "m = nn.BatchNorm1d(1); s = m.state_dict(); del s['num_batches_tracked']; s._metadata['']['version'] = 1; r = repr(m.load_state_dict(s))",
    "apply order": "n = []; nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU())).apply(lambda m: n.append(type(m).__name__)); r = n",
    "named_parameters prefix": "r = [k for k, _ in nn.Sequential(nn.Linear(1, 1)).named_parameters('pre', recurse=True)]",
    "named_buffers no recurse": "m = nn.Sequential(nn.BatchNorm1d(1)); r = [list(dict(m.named_buffers(recurse=False))), list(dict(m.named_buffers()))]",
    "get_parameter errors": "nn.Sequential(nn.Linear(1, 1)).get_parameter('0.nope')",
    "get_buffer not buffer": "nn.Sequential(nn.Linear(1, 1)).get_buffer('0.weight')",
    "get_submodule empty": "m = nn.Linear(1, 1); r = m.get_submodule('') is m",
    "set_submodule strict": "m = nn.Sequential(nn.Linear(1, 1)); m.set_submodule('0.x', nn.ReLU(), strict=True)",
    "set_submodule empty": "nn.Sequential().set_submodule('', nn.ReLU())",
    "to positional tensor": "m = nn.Linear(1, 1).to(torch.ones(1, dtype=torch.float64)); r = [m.weight.dtype == torch.float64]",
    "to memory_format": "m = nn.Conv2d(2, 2, 3).to(memory_format=torch.channels_last); r = [m.weight.is_contiguous(memory_format=torch.channels_last), m.bias.shape]",
    "to complex warns": "m = nn.Linear(1, 1).to(torch.complex64); r = m.weight.dtype == torch.complex64",
    "type": "m = nn.BatchNorm1d(1).type(torch.float64); r = [str(b.dtype)[-7:] for b in m.buffers()]",
    "share_memory": "m = nn.Linear(1, 1); r = [m.share_memory() is m, m.weight.is_shared()]",
    "to_empty recurse": "m = nn.Sequential(nn.Linear(1, 1, device='meta')); m.to_empty(device='cpu', recurse=False); r = m[0].weight.is_meta",
    "zero_grad False": "m = nn.Linear(1, 1); m(torch.ones(1, 1)).backward(); m.zero_grad(set_to_none=False); r = m.weight.grad",
    "zero_grad graph": "m = nn.Linear(1, 1); g = m.weight; (m(torch.ones(1,1)) ** 2).backward(create_graph=True); m.zero_grad(False); r = m.weight.grad.requires_grad",
    "requires_grad_ frozen": "m = nn.Linear(1, 1).requires_grad_(False); r = [p.requires_grad for p in m.parameters()]",
    "dir": "r = [k for k in dir(nn.Sequential(nn.Linear(1, 1))) if not k.startswith('_')][:5]",
    "setattr buffer None": "m = nn.BatchNorm1d(1); m.running_mean = None; r = [list(m.state_dict()), m.running_mean]",
    "setattr tensor over module": "m = nn.Sequential(nn.Linear(1, 1)); setattr(m, '0', torch.ones(1))",
    "setattr param over buffer": "m = nn.BatchNorm1d(1); m.running_mean = nn.Parameter(torch.ones(1)); r = [list(dict(m.named_parameters())), list(dict(m.named_buffers()))]",
    "setattr module over param": "m = nn.Linear(1, 1); m.weight = nn.ReLU()",
    "del child": "m = nn.Sequential(nn.Linear(1, 1)); del m[0]; r = [len(m), repr(m)]",
    "del missing": "m = nn.Linear(1, 1); del m.nope",
    "register_buffer over attr": "m = nn.Linear(1, 1); m.register_buffer('in_features', torch.ones(1))",
    "register_module alias": "m = nn.Module(); m.register_module('a', None); r = [list(m._modules), list(m.children()), m.a]",
    "call_super_init": "class B:\n    def __init__(self, x): self.x = x\nclass A(nn.Module, B):\n    call_super_init = True\n    def __init__(self): super().__init__(x=3)\nr = A().x",
    "pickle module": "import pickle\nm = pickle.loads(pickle.dumps(nn.Linear(1, 1))); r = [type(m).__name__, list(m.state_dict())]",
    "setstate old": "m = nn.Linear(1, 1); d = dict(m.__dict__); [d.pop(k) for k in ('_forward_pre_hooks', '_non_persistent_buffers_set', '_is_full_backward_hook', '_load_state_dict_post_hooks')]; n = nn.Linear.__new__(nn.Linear); n.__setstate__(d); r = [n._non_persistent_buffers_set, n._is_full_backward_hook, len(n._forward_pre_hooks)]",
    "seq index type": "nn.Sequential(nn.ReLU())['0']",
    "seq extend": "m = nn.Sequential(nn.ReLU()); r = [len(m.extend(nn.Sequential(nn.Tanh(), nn.ReLU()))), repr(m)]",
    "seq iadd wrong": "m = nn.Sequential(); m += [nn.ReLU()]",
    "seq mul wrong": "nn.Sequential(nn.ReLU()) * 1.5",
    "seq mul zero": "nn.Sequential(nn.ReLU()) * 0",
    "seq insert wrong": "nn.Sequential(nn.ReLU()).insert(5, nn.ReLU())",
    "seq pop": "m = nn.Sequential(nn.ReLU(), nn.Tanh()); r = [repr(m.pop(-1)), len(m)]",
    "list not iterable": "nn.ModuleList(3)",
    "list call": "nn.ModuleList([nn.ReLU()])(1)",
    "list not module": "nn.ModuleList([1])",
    "list slice": "m = nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.ReLU()]); del m[::2]; r = repr(m)",
    "list pop": "m = nn.ModuleList([nn.ReLU(), nn.Tanh()]); r = [repr(m.pop(0)), repr(m)]",
    "dict ops": "m = nn.ModuleDict({'a': nn.ReLU()}); m.update([('b', nn.Tanh())]); m['a'] = nn.Tanh(); r = [list(m), repr(m.pop('b')), 'b' in m, len(m)]",
    "dict missing": "nn.ModuleDict()['x']",
    "dict update bad": "nn.ModuleDict([('a',)])",
    "dict update nonstr": "nn.ModuleDict([(1, nn.ReLU())])",
    "plist ops": "m = nn.ParameterList([torch.ones(1)]); m += [torch.zeros(2)]; r = [len(m), repr(m), [type(x).__name__ for x in m]]",
    "plist index": "nn.ParameterList([torch.ones(1)])[3]",
    "plist call": "nn.ParameterList()(1)",
    "pdict ops": "m = nn.ParameterDict({'b': torch.ones(1), 'a': 3}); r = [list(m.keys()), repr(m), m.get('q', 5), list((m | nn.ParameterDict({'c': torch.ones(1)})).keys())]",
    "pdict popitem empty": "nn.ParameterDict().popitem()",
    "pdict nonstr": "nn.ParameterDict()[3] = torch.ones(1)",
    "pdict fromkeys": "r = list(nn.ParameterDict().fromkeys(['b', 'a'], torch.ones(1)).keys())",
    "lazy repr": "r = [repr(nn.LazyLinear(3)), repr(nn.LazyConv2d(3, 2)), repr(nn.UninitializedParameter())]",
    "lazy state load": "m = nn.LazyLinear(3); m.load_state_dict({'weight': torch.ones(3, 2), 'bias': torch.ones(3)}); r = [m.weight.shape, type(m).__name__, m.in_features]; m(torch.ones(1, 2)); r += [m.in_features, type(m).__name__]",
    "lazy into ready": "nn.Linear(2, 3).load_state_dict(nn.LazyLinear(3).state_dict())",
    "lazy state keys": "r = [list(nn.LazyBatchNorm1d().state_dict()), [type(v).__name__ for v in nn.LazyBatchNorm1d().state_dict().values()]]",
    "lazy share": "nn.LazyLinear(3).share_memory()",
    "lazy deepcopy": "import copy\nm = copy.deepcopy(nn.LazyLinear(3)); m(torch.ones(1, 2)); r = [type(m).__name__, m.weight.shape]",
    "lazy save load": SAVED
    + "m = nn.LazyLinear(3); s = torch.load(sv(m.state_dict()), weights_only=False); r = [type(v).__name__ for v in s.values()]",
    "lazy wo": SAVED + "torch.load(sv(nn.LazyLinear(3).state_dict()))",
    "lazy parametrize": "class D(nn.Module):\n    def forward(self, w): return w\nnn.utils.parametrize.register_parametrization(nn.LazyLinear(3), 'weight', D())",
    "par register remove": PARAMETRIZE
    + "m = nn.Linear(1, 1); m.weight.data.fill_(3.); P.register_parametrization(m, 'weight', I()); a = m.weight; P.remove_parametrizations(m, 'weight'); r = [a, m.weight, type(m).__name__, list(m.state_dict())]",
    "par remove not leave": PARAMETRIZE
    + "m = nn.Linear(1, 1); m.weight.data.fill_(3.); P.register_parametrization(m, 'weight', D()); P.remove_parametrizations(m, 'weight', leave_parametrized=False); r = [m.weight, type(m.weight).__name__]",
    "par two": PARAMETRIZE
    + "m = nn.Linear(1, 1); m.weight.data.fill_(3.); P.register_parametrization(m, 'weight', D()); P.register_parametrization(m, 'weight', D()); r = [m.weight, len(m.parametrizations.weight), repr(m)]",
    "par cached": PARAMETRIZE
    + "m = nn.Linear(1, 1); P.register_parametrization(m, 'weight', D())\nwith P.cached(): r = [m.weight is m.weight]\nr.append(m.weight is m.weight)",
    "par missing": PARAMETRIZE + "P.register_parametrization(nn.Linear(1, 1), 'nope', D())",
    "par not module": PARAMETRIZE + "P.register_parametrization(nn.Linear(1, 1), 'weight', lambda w: w)",
    "par dtype": PARAMETRIZE
    + "class E(nn.Module):\n    def forward(self, w): return w.double()\nP.register_parametrization(nn.Linear(1, 1), 'weight', E())",
    "par shape": PARAMETRIZE
    + "class E(nn.Module):\n    def forward(self, w): return w[0]\nP.register_parametrization(nn.Linear(2, 2), 'weight', E())",
    "par unsafe shape": PARAMETRIZE
    + "class E(nn.Module):\n    def forward(self, w): return w[0]\nm = nn.Linear(2, 2); P.register_parametrization(m, 'weight', E(), unsafe=True); r = m.weight.shape",
    "par is": PARAMETRIZE
    + "m = nn.Linear(1, 1); a = P.is_parametrized(m); P.register_parametrization(m, 'bias', D()); r = [a, P.is_parametrized(m), P.is_parametrized(m, 'weight'), P.type_before_parametrizations(m).__name__]",
    "par load": PARAMETRIZE
    + "m = nn.Linear(1, 1); P.register_parametrization(m, 'weight', D()); q = m.load_state_dict({'bias': torch.ones(1), 'parametrizations.weight.original': torch.full((1, 1), 4.)}); r = [repr(q), m.weight]",
    "par load plain": PARAMETRIZE
    + "m = nn.Linear(1, 1); P.register_parametrization(m, 'weight', D()); m.load_state_dict(nn.Linear(1, 1).state_dict())",
    "par transfer": PARAMETRIZE
    + "a, b = nn.Linear(1, 1), nn.Linear(1, 1); P.register_parametrization(a, 'weight', I()); P.transfer_parametrizations_and_params(a, b); r = [P.is_parametrized(b, 'weight'), torch.equal(a.weight, b.weight)]",
    "par remove not": PARAMETRIZE + "P.remove_parametrizations(nn.Linear(1, 1), 'weight')",
    "wn": "torch.manual_seed(0); m = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)); r = [list(m.state_dict()), m.weight]",
    "wn old": "torch.manual_seed(0); m = nn.utils.weight_norm(nn.Linear(2, 2)); r = [list(m.state_dict()), len(m._forward_pre_hooks)]",
    "sn": "torch.manual_seed(0); m = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3)); r = [list(m.state_dict()), m.weight.shape]",
    "orth": "torch.manual_seed(0); m = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)); r = [sorted(m.state_dict()), torch.allclose(m.weight @ m.weight.T, torch.eye(3), atol=1e-5)]",
    "fc list of dicts": CALL
    + "m = nn.BatchNorm1d(1); r = fc(m, [dict(m.named_parameters()), dict(m.named_buffers())], (torch.tensor([[1.], [3.]]),))",
    "fc dup": CALL + "m = nn.Linear(1, 1); d = dict(m.named_parameters()); fc(m, [d, d], (torch.ones(1, 1),))",
    "fc strict missing": CALL + "fc(nn.Linear(1, 1), {'weight': torch.ones(1, 1)}, (torch.ones(1, 1),), strict=True)",
    "fc not dict": CALL + "fc(nn.Linear(1, 1), 3, (torch.ones(1, 1),))",
    "fc not tensor value": CALL + "fc(nn.Linear(1, 1), {'weight': 3}, (torch.ones(1, 1),))",
    "fc kwargs": CALL
    + "r = fc(nn.Linear(1, 1), {'weight': torch.zeros(1, 1), 'bias': torch.ones(1)}, None, {'input': torch.ones(1, 1)})",
    "fc tie conflict": CALL
    + "m = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)); m[1].weight = m[0].weight; fc(m, {'0.weight': torch.ones(1, 1), '1.weight': torch.zeros(1, 1)}, (torch.ones(1, 1),))",
    "fc deprecated": "r = nn.utils.stateless.functional_call(nn.Linear(1, 1), {'weight': torch.zeros(1, 1), 'bias': torch.ones(1)}, (torch.ones(1, 1),))",
    "fc on attr": CALL + "m = nn.Linear(1, 1); m.t = 5; fc(m, {'t': torch.ones(1)}, (torch.ones(1, 1),))",
    "save hooks warn": SAVED
    + "t = torch.ones(1, requires_grad=True); t.register_hook(lambda g: g); r = torch.load(sv(t))",
    "save attr": SAVED + "t = torch.ones(1); t.tag = 'x'; q = torch.load(sv(t)); r = [q, q.tag]",
    "save param attr": SAVED
    + "t = nn.Parameter(torch.ones(1)); t.tag = 'x'; q = torch.load(sv(t)); r = [type(q).__name__, q.tag]",
    "save subclass": SAVED
    + "class T(torch.Tensor): pass\nimport sys\nsys.modules['zz'] = sys; T.__module__ = 'zz'; sys.T = T; T.__qualname__ = 'T'\nr = type(torch.load(sv(torch.ones(1).as_subclass(T)), weights_only=False)).__name__",
    "save generator": SAVED + "torch.save(torch.Generator(), io.BytesIO())",
    "save lambda": "torch.save(lambda: 1, io.BytesIO())",
    "save no write": "torch.save(1, object())",
    "save bad dir": "torch.save(1, '/nope/x.pt')",
    "save pos": SAVED + "b = io.BytesIO(); b.write(b'abc'); torch.save(torch.ones(1), b); b.seek(0); torch.load(b)",
    "load offset": SAVED
    + "b = io.BytesIO(); b.write(b'abc'); torch.save(torch.ones(1), b); b.seek(3); r = torch.load(b)",
    "load missing": "torch.load('/nope/x.pt')",
    "load bytes": "torch.load(b'abc')",
    "load int": "torch.load(3)",
    "load garbage": "torch.load(io.BytesIO(b'garbage that is long enough'))",
    "load garbage unsafe": "torch.load(io.BytesIO(b'garbage that is long enough'), weights_only=False)",
    "load pk only": "torch.load(io.BytesIO(b'PK\\x03\\x04' + b'x' * 100))",
    "load map bad": SAVED + "torch.load(sv(torch.ones(1)), map_location='gpu')",
    "load map int": SAVED + "torch.load(sv(torch.ones(1)), map_location=3)",
    "load map meta": SAVED
    + "q = torch.load(sv([torch.ones(2, 3), nn.Parameter(torch.ones(2))]), map_location='meta'); r = [str(q[0].device), q[0].shape, str(q[1].device), q[1].requires_grad]",
    "load dict subclass": SAVED + "import collections\nr = torch.load(sv(collections.Counter('aab')))",
    "load defaultdict": SAVED + "import collections\ntorch.load(sv(collections.defaultdict(int)))",
    "load namedtuple": SAVED
    + "import collections, sys\nN = collections.namedtuple('N', 'a b'); N.__module__ = 'zq'; sys.modules['zq'] = sys; sys.N = N; torch.load(sv(N(1, 2)))",
    "load slice": SAVED + "torch.load(sv(slice(1, 2)))",
    "load range": SAVED + "torch.load(sv(range(3)))",
    "load frozenset": SAVED + "torch.load(sv(frozenset([1])))",
    "load values": SAVED
    + "r = torch.load(sv({'a': 1 << 70, 'b': -1, 'c': 1.5, 'd': b'x', 'e': bytearray(b'q'), 'f': {1, 2}, 'g': (1, (2, ())), 'h': None, 'i': True, 'j': 'é', 'k': 300, 'l': -70000, 'm': torch.Size([1]), 'n': complex(1, 2)}))\nr = {k: repr(v) for k, v in r.items()}",
    "load np scalar": SAVED + "import numpy\ntorch.load(sv(numpy.float64(3.)))",
    "load pickle_module": SAVED + "import pickle\ntorch.load(sv(1), pickle_module=pickle)",
    "load pickle_module wo": SAVED + "import pickle\ntorch.load(sv(1), pickle_module=pickle, weights_only=True)",
    "load kw wo": SAVED + "r = torch.load(sv(1), encoding='latin1')",
    "load layouts": SAVED + "torch.load(sv(torch.strided)); r = 1",
    "load dtype all": SAVED
    + "r = [torch.load(sv(torch.ones(2, dtype=d))) for d in (torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.uint16)]\nr = [[str(x.dtype)[-6:], x.shape] for x in r]",
    "load storage": SAVED + "r = type(torch.load(sv(torch.ones(2).untyped_storage()))).__name__",
    "protocol": SAVED
    + "r = [torch.load(sv(torch.ones(1), pickle_protocol=p), weights_only=False) for p in (2, 3, 4, 5)]",
    "protocol wo": SAVED + "torch.load(sv(torch.ones(1), pickle_protocol=4))",
    "set_default_load_endianness wrong": "torch.serialization.set_default_load_endianness('big')",
    "register_package order": "r = [p[0] for p in torch.serialization._package_registry][:2]",
    "unsafe globals bad": "torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b'abc'))",
    "safe globals tuple3": "torch.serialization.add_safe_globals([(1, 2, 3)])\ntry: torch.load(io.BytesIO(b'\\x80\\x02c__builtin__\\nx\\n.'))\nfinally: torch.serialization.clear_safe_globals()",
    "skip meta warn": SAVED
    + "with torch.serialization.skip_data(): b = sv(torch.empty(2, device='meta'))\nr = torch.load(b).is_meta",
    "crc opts": "r = [torch.serialization.get_crc32_options(), torch.serialization.get_default_mmap_options(), torch.serialization.get_default_load_endianness()]",
    "param init": "r = [nn.Parameter().shape, nn.Parameter(torch.ones(1), False).requires_grad]",
    "param int": "nn.Parameter(torch.ones(1, dtype=torch.int64))",
    "param repr": "r = [repr(nn.Parameter(torch.ones(2))), repr(nn.Buffer(torch.ones(1)))]",
    "buffer isinstance": "m = nn.Module(); m.b = nn.Buffer(torch.ones(1), persistent=False); r = [isinstance(m.b, nn.Buffer), type(m.b).__name__, isinstance(torch.ones(1), nn.Buffer), list(m.state_dict())]",
    "param isinstance": "p = nn.Parameter(torch.ones(1)); r = [isinstance(p * 1, nn.Parameter), isinstance(p.data, nn.Parameter), isinstance(p.detach(), nn.Parameter)]",
    "param deepcopy grad": "import copy\np = nn.Parameter(torch.ones(1)); (p * 2).backward(); q = copy.deepcopy(p); r = [type(q).__name__, q.grad]",
    "param empty_like": "r = [type(torch.ones_like(nn.Parameter(torch.ones(1)))).__name__]",
    "repr extra": "class A(nn.Module):\n    def __init__(s): super().__init__(); s.l = nn.Linear(1, 1)\n    def extra_repr(s): return 'a=1\\nb=2'\nr = repr(A())",
    "repr none child": "m = nn.Sequential(nn.ReLU()); m.register_module('x', None); r = repr(m)",
    "forward nonfn": "m = nn.Module(); m.forward = lambda x: x + 1; r = m(1)",
    "call twice kw": "nn.Linear(1, 1)(input=torch.ones(1, 1), x=1)",
    "no forward": "nn.Module()(1)",
    "train chain": "m = nn.Sequential(nn.Dropout()); r = [m.eval() is m, m[0].training, m.train()[0].training]; m.train('yes')",
    "half": "m = nn.BatchNorm1d(1).half(); r = [str(v.dtype) for v in m.state_dict().values()]",
    "ipu xpu": "nn.Linear(1, 1).xpu()",
    "to two devs": "nn.Linear(1, 1).to('cpu', 'cuda')",
    "to none": "r = nn.Linear(1, 1).to().weight.shape",
    "to str dtype": "nn.Linear(1, 1).to('float16')",
}


def plain(value: Any, library: Any) -> Any:
    """`value` in terms that are the same for both libraries."""
    if isinstance(value, library.Tensor):
        content = value.detach().double().reshape(-1).tolist()
        return ["tensor", [round(n, 5) for n in content], list(value.shape), str(value.dtype), value.requires_grad]
    if isinstance(value, dict):
        return {str(key): plain(each, library) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, library) for each in value]
    if isinstance(value, float):
        return round(value, 6)
    return value if isinstance(value, int | str | None) else repr(value).replace("readtorch", "torch")


def outcome(library: Any, source: str) -> tuple[Any, str, str, list[str]]:
    """Result, type and message of the exception, categories of the warnings."""
    names: dict[str, Any] = {"torch": library, "nn": library.nn, "io": io}
    result, kind, message = None, "", ""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)  # pickle looks a name up in the modules of all packages
        library.set_warn_always(True)  # also of what is said once in a process
        library.manual_seed(0)
        try:
            exec(source, names)
            result = plain(names.get("r"), library)
        except Exception as error:
            kind, message = type(error).__name__, str(error)
        finally:
            library.set_warn_always(False)
    return result, kind, message, [warning.category.__name__ for warning in seen]


def words(message: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Za-z0-9_']{3,}", message)}


@pytest.mark.parametrize("name", CASES)
def test_both_do_the_same(name: str) -> None:
    theirs, ours = outcome(torch, CASES[name]), outcome(readtorch, CASES[name])
    assert (ours[0], ours[1], ours[3]) == (theirs[0], theirs[1], theirs[3]), ours[2]
    wanted = words(theirs[2])
    assert len(wanted & words(ours[2])) >= 0.4 * len(wanted), ours[2]
