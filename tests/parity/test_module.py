"""nn.Module and its containers, beside PyTorch 2.13.0: the same snippet must give the same result, error type and warnings."""

from __future__ import annotations

import importlib
import re
import textwrap
import warnings
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = pytest.mark.torch

PRELUDE = """
import copy, pickle, sys
from collections import OrderedDict
nn = torch.nn
named = importlib.import_module(torch.__name__ + ".nn.modules.module")

class Scale(nn.Module):
    def __init__(self, width=2, factor=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), float(factor)))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))
    def forward(self, x, bias=0):
        return x * self.weight + bias

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Scale(), Scale()
        self.bias = nn.Parameter(torch.zeros(2))
    def forward(self, x):
        return self.b(self.a(x)) + self.bias

def leaf(*values):
    return torch.tensor(values, requires_grad=True)
"""

CASES = {
    # registration
    "a parameter before init": "class A(nn.Module):\n    def __init__(self): self.w = nn.Parameter(torch.ones(1))\nA()",
    "a module before init": "class A(nn.Module):\n    def __init__(self): self.m = nn.Module()\nA()",
    "a buffer before init": "class A(nn.Module):\n    def __init__(self): self.b = nn.Buffer(torch.ones(1))\nA()",
    "a plain value before init": "class A(nn.Module):\n    def __init__(self):\n        self.x = 3; super().__init__()\nr = A().x",
    "unexpected keyword": "class A(nn.Module):\n    def __init__(self, **k): super().__init__(**k)\nA(x=1)",
    "unexpected positional": "class A(nn.Module):\n    def __init__(self, *a): super().__init__(*a)\nA(1, 2)",
    "call_super_init": """
        class Mixin:
            def __init__(self, x): self.x = x
        class A(nn.Module, Mixin):
            call_super_init = True
            def __init__(self): super().__init__(x=3)
        r = A().x""",
    "names refused": """
        r = []
        for register, value in (("register_parameter", None), ("register_buffer", None), ("add_module", None), ("register_module", None)):
            for name in ("", "a.b", "forward", "training", 3, None):
                try:
                    getattr(Scale(), register)(name, value)
                    r.append("took " + repr(name))
                except Exception as error:
                    r.append(type(error).__name__)""",
    "values refused": """
        r = []
        for register in ("register_parameter", "register_buffer", "add_module"):
            for value in (3, "x", torch.ones(1), nn.Module(), [1]):
                try:
                    getattr(Scale(), register)("new", value)
                    r.append("took")
                except Exception as error:
                    r.append(type(error).__name__)""",
    "taken by another kind": """
        r = []
        for register in ("register_parameter", "register_buffer", "add_module"):
            for name in ("weight", "calls", "a", "plain"):
                net = Net(); net.weight = nn.Parameter(torch.ones(1)); net.register_buffer("calls", None); net.plain = 1
                try:
                    getattr(net, register)(name, None)
                    r.append("took")
                except Exception as error:
                    r.append(type(error).__name__)""",
    "parameter over plain attribute": "m = nn.Module(); m.x = 3; m.x = nn.Parameter(torch.ones(1)); r = ['x' in vars(m), list(m._parameters)]",
    "buffer over plain attribute": "m = nn.Module(); m.x = 3; m.x = nn.Buffer(torch.ones(1))",
    "plain tensor over buffer": "m = Scale(); m.calls = torch.ones(3); r = [m.calls.tolist(), 'calls' in vars(m), list(m.state_dict())]",
    "integer parameter": "nn.Parameter(torch.ones(1, dtype=torch.int64))",
    "integer parameter without gradient": "r = nn.Parameter(torch.ones(1, dtype=torch.int64), requires_grad=False).dtype",
    "empty parameter": "p = nn.Parameter(); r = [p.shape, p.requires_grad, p.is_leaf]",
    "parameter of a parameter": "p = nn.Parameter(torch.ones(1)); q = nn.Parameter(p, False); r = [q is p, q.requires_grad, q.data_ptr() == p.data_ptr()]",
    "parameter of a computed tensor": "p = nn.Parameter(leaf(1.0) * 2); r = [p.is_leaf, p.requires_grad]",
    "parameter repr": "r = repr(nn.Parameter(torch.ones(2)))",
    "parameter deepcopy": "p = nn.Parameter(torch.ones(1)); p.note = 1; q = copy.deepcopy(p); r = [type(q).__name__, q.requires_grad, q is p, hasattr(q, 'note')]",
    "parameter pickle": "p = nn.Parameter(torch.ones(2), False); p.note = 'n'; q = pickle.loads(pickle.dumps(p)); r = [type(q).__name__, q.requires_grad, q.note, q]",
    "buffer needs a gradient as its data does": "r = [nn.Buffer(leaf(1.0)).requires_grad, nn.Buffer(torch.ones(1)).requires_grad, nn.Buffer().shape]",
    "registration hooks": """
        seen = []
        a = named.register_module_parameter_registration_hook(lambda m, n, p: seen.append(("p", n)))
        b = named.register_module_buffer_registration_hook(lambda m, n, p: seen.append(("b", n)))
        c = named.register_module_module_registration_hook(lambda m, n, p: seen.append(("m", n)))
        net = Net(); net.a = None; net.bias = None; net.added = nn.Module(); net.a = Scale()
        for h in (a, b, c): h.remove()
        Net(); r = seen""",
    "registration hook replaces": """
        with named.register_module_parameter_registration_hook(lambda m, n, p: nn.Parameter(p * 0, False)):
            net = Net()
        r = [net.bias.requires_grad, net.a.weight.tolist()]""",
    "overridden register_buffer": """
        class Old(nn.Module):
            def register_buffer(self, name, tensor): super().register_buffer(name, tensor)
        m = Old(); m.b = nn.Buffer(torch.ones(1)); r = list(m.state_dict())
        m.c = nn.Buffer(torch.ones(1), persistent=False)""",
    "delattr": "m = Scale(); del m.weight; del m.calls; r = [list(m._parameters), list(m._buffers), m.training]; del m.nothing",
    "delattr forgets persistence": """
        m = nn.Module(); m.register_buffer("b", torch.ones(1), persistent=False); del m.b
        m.register_buffer("b", torch.ones(1)); r = list(m.state_dict())""",
    "dir": "m = nn.Sequential(Scale()); m.x = 1; d = dir(m); r = ['x' in d, '0' in d, 'forward' in d, d == sorted(d)]",
    "getattr of nothing": "Scale().nothing",
    # walks
    "named_modules": "r = [n for n, _ in Net().named_modules()]",
    "named_modules with prefix": "r = [n for n, _ in Net().named_modules(prefix='p')]",
    "named_modules with a cycle seen": "n = Net(); memo = {n.a}; r = [x for x, _ in n.named_modules(memo=memo)]",
    "None children": "n = Net(); n.a = None; r = [[x for x, _ in n.named_modules()], [x for x, _ in n.named_children()], list(n.state_dict())]",
    "named_parameters": "r = [[n for n, _ in Net().named_parameters('p', recurse)] for recurse in (True, False)]",
    "named_buffers": "r = [n for n, _ in Net().named_buffers()]",
    "duplicates": """
        n = Net(); n.b = n.a
        r = [[x for x, _ in f(remove_duplicate=d)] for f in (n.named_modules, n.named_parameters, n.named_buffers) for d in (True, False)]""",
    "get_ and set_": """
        r, n = [], Net()
        for path in ("", "a", "a.weight", "a.calls", "bias", "x", "a.x", "a..weight"):
            for get in ("get_submodule", "get_parameter", "get_buffer"):
                try: r.append(type(getattr(n, get)(path)).__name__)
                except Exception as error: r.append(type(error).__name__)
        for path, value, strict in (("", n, 0), ("a", 3, 0), ("a", Scale(), 1), ("new", Scale(), 1), ("new", Scale(), 0), ("bias", Scale(), 0), ("q.a", Scale(), 0)):
            try: n.set_submodule(path, value, strict=bool(strict)); r.append("set")
            except Exception as error: r.append(type(error).__name__)""",
    "apply order": "l = []; n = Net(); r = [n.apply(lambda m: l.append(type(m).__name__)) is n, l]",
    "train and eval": "n = Net(); r = [n.eval() is n, [m.training for m in n.modules()], n.a.train() is n.a, [m.training for m in n.modules()]]",
    "train refuses": "Net().train('yes')",
    "requires_grad_": "n = Net().requires_grad_(False); r = [p.requires_grad for p in n.parameters()]",
    "zero_grad": """
        n = Net(); n(torch.ones(2)).sum().backward(); n.zero_grad(set_to_none=False); r = [p.grad for p in n.parameters()]
        n.zero_grad(); r += [p.grad for p in n.parameters()]""",
    "zero_grad of a graph": """
        n = Scale(); n.weight.grad = g = n.weight * 2
        n.zero_grad(set_to_none=False); r = [g.requires_grad, g.grad_fn is None, g]""",
    "conversions": """
        r = []
        for convert in (lambda m: m.double(), lambda m: m.half(), lambda m: m.to(torch.float64), lambda m: m.type(torch.float64), lambda m: m.to("cpu"), lambda m: m.cpu(), lambda m: m.float(), lambda m: m.to(torch.ones(1, dtype=torch.float64))):
            m = Scale(); w = m.weight; same = convert(m) is m
            r.append([same, m.weight is w, str(m.weight.dtype), str(m.calls.dtype)])""",
    "conversion of gradients": "m = Scale(); m(torch.ones(2)).sum().backward(); g = m.weight.grad; m.double(); r = [m.weight.grad is g, str(g.dtype)]",
    "to refuses integers": "Scale().to(torch.int32)",
    "to meta": "m = Scale(); w = m.weight; m.to('meta'); r = [m.weight is w, str(m.weight.device), m.weight.requires_grad, str(m.calls.device)]",
    "from meta": "Scale().to('meta').to('cpu')",
    "to_empty": "m = Scale().to('meta').to_empty(device='cpu'); r = [str(m.weight.device), m.weight.shape, type(m.weight).__name__]",
    "overwrite on conversion": """
        f = torch.__future__; f.set_overwrite_module_params_on_conversion(True)
        try:
            m = Scale(); w = m.weight; m.double(); r = [m.weight is w, str(w.dtype)]
        finally: f.set_overwrite_module_params_on_conversion(False)""",
    "repr": """
        class R(nn.Module):
            def __init__(self, text, *children):
                super().__init__(); self.text = text
                for i, c in enumerate(children): self.add_module(str(i), c)
            def extra_repr(self): return self.text
        r = [repr(m) for m in (R(""), R("x=1"), R("a\\nb"), R("x", R("y")), R("", R("a\\n\\nb"), R("")), R("a", R("", R("z"))))]""",
    # calls and hooks
    "no forward": "nn.Module()(1)",
    "pre-hook replaces": "m = Scale(); m.register_forward_pre_hook(lambda m, a: a[0] + 1); r = m(torch.ones(2))",
    "pre-hook replaces by a tuple": "m = Scale(); m.register_forward_pre_hook(lambda m, a: (a[0] + 1, 5)); r = m(torch.ones(2))",
    "pre-hook with kwargs": "m = Scale(); m.register_forward_pre_hook(lambda m, a, k: (a, {'bias': 7}), with_kwargs=True); r = m(torch.ones(2), bias=1)",
    "pre-hook with bad result": "m = Scale(); m.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True); m(torch.ones(2))",
    "hook replaces": "m = Scale(); m.register_forward_hook(lambda m, a, o: 'x'); m.register_forward_hook(lambda m, a, o: o + 'y'); r = m(torch.ones(2))",
    "prepend": """
        l = []; m = Scale()
        for i in range(3): m.register_forward_hook(lambda *a, i=i: l.append(i), prepend=i == 2)
        for i in range(3): m.register_forward_pre_hook(lambda *a, i=i: l.append(i + 10), prepend=i == 2)
        m(torch.ones(2)); r = l""",
    "a hook that removes itself": """
        l = []; m = Scale()
        def once(*a): l.append(1); h.remove()
        h = m.register_forward_hook(once); m.register_forward_hook(lambda *a: l.append(2)); m(torch.ones(2)); m(torch.ones(2)); r = l""",
    "removing twice": "m = Scale(); h = m.register_forward_hook(lambda *a: 1, with_kwargs=True, always_call=True); h.remove(); h.remove(); r = [len(m._forward_hooks), len(m._forward_hooks_with_kwargs), len(m._forward_hooks_always_called)]",
    "always_call, with an error in forward": """
        class B(nn.Module):
            def forward(self, x): raise KeyError(1)
        l = []; m = B(); m.register_forward_hook(lambda m, a, k, o: l.append((a, k, o)), with_kwargs=True, always_call=True)
        try: m(1, )
        except KeyError: pass
        r = l""",
    "always_call, with an error in a hook": """
        def bad(*a): raise ValueError("hook")
        l = []; m = Scale(); m.register_forward_hook(lambda m, a, o: l.append("first"), always_call=True); m.register_forward_hook(bad)
        m.register_forward_hook(lambda m, a, o: l.append(o.tolist()), always_call=True)
        try: m(torch.ones(2))
        except ValueError: pass
        r = l""",
    "always_call that fails itself": """
        class B(nn.Module):
            def forward(self, x): raise KeyError(1)
        def bad(*a): raise ValueError("hook")
        m = B(); m.register_forward_hook(bad, always_call=True); m(1)""",
    "global hooks": """
        l = []
        hs = [named.register_module_forward_pre_hook(lambda m, a: l.append("pre " + type(m).__name__)), named.register_module_forward_hook(lambda m, a, o: l.append("post " + type(m).__name__))]
        Net()(torch.ones(2))
        for h in hs: h.remove()
        Net()(torch.ones(2)); r = l""",
    "global hook with kwargs": """
        l = []
        with named.register_module_forward_hook(lambda m, a, k, o: l.append(sorted(k)), with_kwargs=True): Scale()(torch.ones(2), bias=1)
        r = l""",
    "full backward hook": """
        l = []; m = Scale(); m.register_full_backward_hook(lambda m, gi, go: l.append((gi, go)))
        x = leaf(1.0, 2.0); m(x).sum().backward(); r = [l, x.grad]""",
    "full backward hook and non-tensors": """
        class M(nn.Module):
            def forward(self, x, n, y): return x * n, "text", y
        l = []; m = M(); m.register_full_backward_hook(lambda m, gi, go: l.append((gi, go)))
        a, t, b = m(leaf(1.0), 3, torch.ones(1)); a.sum().backward(); r = [l, t, b.requires_grad]""",
    "full backward hook replaces": "m = Scale(); m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,)); x = leaf(1.0, 1.0); m(x).sum().backward(); r = [x.grad, m.weight.grad]",
    "full backward hook of wrong length": "m = Scale(); m.register_full_backward_hook(lambda m, gi, go: (1, 2)); m(leaf(1.0, 1.0)).sum().backward()",
    "backward pre-hook of wrong length": "m = Scale(); m.register_full_backward_pre_hook(lambda m, go: ()); m(leaf(1.0, 1.0)).sum().backward()",
    "backward pre-hooks": "m = Scale(); m.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,)); m.register_full_backward_pre_hook(lambda m, go: (go[0] + 1,), prepend=True); x = leaf(1.0, 1.0); m(x).sum().backward(); r = x.grad",
    "no input needs a gradient": "l = []; m = Scale(); m.register_full_backward_hook(lambda m, gi, go: l.append((gi, go))); m(torch.ones(2)).sum().backward(); r = l",
    "no input needs a gradient, and a result": "m = Scale(); m.register_full_backward_hook(lambda m, gi, go: (torch.ones(1),)); m(torch.ones(2)).sum().backward()",
    "no gradient at all": "l = []; m = Scale().requires_grad_(False); m.register_full_backward_hook(lambda *a: l.append(1)); y = m(torch.ones(2)); r = [l, y.requires_grad]",
    "no_grad": """
        l = []; m = Scale(); m.register_full_backward_hook(lambda *a: l.append(1))
        with torch.no_grad(): y = m(leaf(1.0, 1.0))
        r = [l, y.requires_grad]""",
    "dict result": "class M(nn.Module):\n    def forward(self, x): return {'y': x * 2}\nm = M(); m.register_full_backward_hook(lambda *a: None); r = list(m(leaf(1.0)))",
    "in place on the output": "m = Scale(); m.register_full_backward_hook(lambda *a: None); m(leaf(1.0, 1.0)).add_(1)",
    "in place on the input": "class M(nn.Module):\n    def forward(self, x): return x.mul_(2)\nm = M(); m.register_full_backward_hook(lambda *a: None); m(leaf(1.0) * 1)",
    "mixed backward hooks": "m = Scale(); m.register_backward_hook(lambda *a: None); m.register_full_backward_hook(lambda *a: None)",
    "mixed the other way": "m = Scale(); m.register_full_backward_hook(lambda *a: None); m.register_backward_hook(lambda *a: None)",
    "old hook, right": "class M(nn.Module):\n    def forward(self, x): return x * 2\nl = []; m = M(); m.register_backward_hook(lambda m, gi, go: l.append([len(gi), go])); m(leaf(1.0) * 1).sum().backward(); r = l",
    "old hook, several operations": "l = []; m = Scale(); m.register_backward_hook(lambda m, gi, go: l.append(len(gi))); m(leaf(1.0, 1.0) * 1, torch.ones(2)).sum().backward(); r = l",
    "old hook, several results": "class M(nn.Module):\n    def forward(self, x): return x * 2, x * 3\nl = []; m = M(); m.register_backward_hook(lambda m, gi, go: l.append(len(go))); a, b = m(leaf(1.0) * 1); (a + b).sum().backward(); r = l",
    "old hook, dict result": "class M(nn.Module):\n    def forward(self, x): return {'y': x * 2}\nl = []; m = M(); m.register_backward_hook(lambda m, gi, go: l.append(len(go))); m(leaf(1.0) * 1)['y'].sum().backward(); r = l",
    "old hook, odd argument": "class M(nn.Module):\n    def forward(self, x, n): return x * n\nl = []; m = M(); m.register_backward_hook(lambda m, gi, go: l.append(len(go))); m(leaf(1.0) * 1, 3).sum().backward(); r = l",
    "hooks are copied": "l = []; m = Scale(); m.register_forward_hook(lambda mod, a, o: l.append(mod is m)); copy.deepcopy(m)(torch.ones(2)); m(torch.ones(2)); r = l",
    # state
    "state_dict": "s = Net().state_dict(); r = [type(s).__name__, list(s), dict(s._metadata), s]",
    "state_dict into a destination": "d = {}; s = Net().state_dict(destination=d, prefix='p.'); r = [s is d, list(d)]",
    "state_dict by position": "d = OrderedDict(); s = Scale().state_dict(d, 'p.', True); r = [s is d, list(s), s['p.weight'].requires_grad]",
    "state_dict keep_vars": "m = Scale(); r = [m.state_dict(keep_vars=True)['weight'] is m.weight, m.state_dict()['weight'] is m.weight]",
    "state_dict hooks": """
        l = []; n = Net()
        n.register_state_dict_pre_hook(lambda m, p, k: l.append(("pre", p, k)))
        n.a.register_state_dict_pre_hook(lambda m, p, k: l.append(("pre", p, k)))
        n.a.register_state_dict_post_hook(lambda m, s, p, meta: l.append(("post", p, sorted(s), meta)))
        n.register_state_dict_post_hook(lambda m, s, p, meta: s.pop("bias") and None)
        r = [list(n.state_dict(keep_vars=True)), l]""",
    "state_dict post-hook returns": "m = Scale(); m.register_state_dict_post_hook(lambda *a: {}); m.state_dict()",
    "one function, both post-hooks": "def f(*a): pass\nm = Scale(); m.register_state_dict_post_hook(f); m._register_state_dict_hook(f)",
    "load": "n = Net(); s = {k: v + 1 for k, v in n.state_dict().items()}; r = [n.load_state_dict(s), repr(n.load_state_dict(s)), n.state_dict()]",
    "load is no mapping": "Scale().load_state_dict([('weight', 1)])",
    "load with everything wrong": "Net().load_state_dict({'bias': torch.ones(3), 'a.weight': 3, 'c': 1, 'a.c.d': 1, 'a.weight.x': 1})",
    "load with everything wrong, not strict": "Net().load_state_dict({'bias': torch.ones(3), 'a.weight': 3, 'c': 1, 'a.c.d': 1}, strict=False)",
    "load with other names, not strict": "r = Net().load_state_dict({'bias': torch.ones(2), 'c': 1, 'a.c.d': 1, 'a.weight.x': 1}, strict=False)",
    "load a scalar of old": "m = nn.Module(); m.register_buffer('s', torch.tensor(0.0)); m.load_state_dict({'s': torch.ones(1)}); r = m.s",
    "load casts": "m = Scale(); m.load_state_dict({'weight': torch.ones(2, dtype=torch.float64) * 3, 'calls': torch.ones(1)}); r = [m.weight, m.calls]",
    "load cannot copy": "m = Scale(); m.load_state_dict({'weight': torch.ones(2), 'calls': torch.ones(1, dtype=torch.float32).to('meta')}); r = m.calls",
    "load into meta": "m = Scale().to('meta'); r = str(m.load_state_dict(Scale().state_dict())); r = [r, str(m.weight.device)]",
    "load assign": """
        m = Scale().to('meta'); m.weight.requires_grad_(False); s = Scale(factor=4).state_dict(); m.load_state_dict(s, assign=True)
        r = [m.weight, type(m.weight).__name__, m.weight.requires_grad, m.weight.data_ptr() == s['weight'].data_ptr(), m.calls is s['calls']]""",
    "load assign a parameter": "m = Scale(); p = nn.Parameter(torch.ones(2), False); m.load_state_dict({'weight': p, 'calls': torch.ones(1)}, assign=True); r = [m.weight is p, p.requires_grad]",
    "extra state": """
        class E(nn.Module):
            def get_extra_state(self): return {"x": 1}
            def set_extra_state(self, state): self.got = state
        n = Net(); n.e = E(); m = Net(); m.e = E(); s = n.state_dict(); r = [list(s), m.load_state_dict(s), m.e.got]
        del s["e._extra_state"]; m.load_state_dict(s)""",
    "extra state nobody wants": "Scale().load_state_dict({**Scale().state_dict(), '_extra_state': 1})",
    "load hooks": """
        l = []; n = Net()
        n.a.register_load_state_dict_pre_hook(lambda m, s, p, meta, strict, miss, unex, err: (l.append((p, sorted(s), dict(meta), strict)), s.pop("a.odd")))
        n.register_load_state_dict_post_hook(lambda m, keys: l.append(keys))
        n._register_load_state_dict_pre_hook(lambda s, p, meta, strict, miss, unex, err: l.append(p))
        r = [n.load_state_dict({**n.state_dict(), "a.odd": 1}), l]""",
    "load post-hook returns": "m = Scale(); m.register_load_state_dict_post_hook(lambda m, k: k); m.load_state_dict(m.state_dict())",
    "a child with a dot in its name": "m = nn.Module(); setattr(m, 'a.b', Scale()); r = list(m.state_dict()); m.load_state_dict(m.state_dict())",
    "versions": """
        class V(Scale):
            _version = 3
            def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
                seen.append((prefix, dict(local_metadata))); super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)
        seen = []; n = Net(); n.a = V(); n.load_state_dict(n.state_dict()); n.load_state_dict(dict(n.state_dict())); r = seen""",
    "pickle": "sys.modules['__main__'].Scale = Scale; Scale.__module__ = '__main__'; m = pickle.loads(pickle.dumps(Scale(factor=3))); r = [m.weight, m.state_dict(), m(torch.ones(2))]",
    "old pickle": "m = Scale(); s = m.__getstate__(); del s['_forward_pre_hooks'], s['_state_dict_hooks'], s['_non_persistent_buffers_set'], s['_is_full_backward_hook']; n = Scale.__new__(Scale); n.__setstate__(s); r = [n(torch.ones(2)), list(n.state_dict())]",
    "deepcopy": "n = Net(); n.b.weight = n.a.weight; n(torch.ones(2)).sum().backward(); c = copy.deepcopy(n); r = [c.a.weight is c.b.weight, c.a.weight is n.a.weight, c.bias.grad, c.training, list(c.state_dict())]",
    "replica": "n = Net(); c = n._replicate_for_data_parallel(); r = [dict(c._parameters), c.a is n.a, c._modules is n._modules, c._is_replica]; c.zero_grad()",
    # containers
    "sequential": "s = nn.Sequential(Scale(2, 2), Scale(2, 3)); r = [len(s), s(torch.ones(2)), list(s._modules), repr(s), [type(m).__name__ for m in s]]",
    "sequential by name": "s = nn.Sequential(OrderedDict(a=Scale(), b=Scale())); r = [list(s._modules), s.a is s[0], s[-1] is s.b, list(s[1:]._modules)]",
    "sequential of a dict": "nn.Sequential({'a': Scale()})",
    "sequential of None": "r = repr(nn.Sequential(None))",
    "sequential indices": """
        r = []
        for i in (0, -1, 2, -3, 1.0, True, slice(0, 1), slice(None, None, -1)):
            try: r.append(repr(nn.Sequential(Scale(2, 1), Scale(3, 2))[i]))
            except Exception as error: r.append(type(error).__name__)""",
    "sequential changes": """
        s = nn.Sequential(*[Scale(i + 1) for i in range(4)]); r = []
        s[0] = Scale(9); del s[1]; r.append([m.weight.numel() for m in s]); r.append(list(s._modules))
        s.insert(1, Scale(7)).append(Scale(8)).extend([Scale(6)]); r.append([m.weight.numel() for m in s]); s.insert(-1, Scale(5)); r.append([m.weight.numel() for m in s])
        r.append(s.pop(0).weight.numel()); del s[1:3]; r.append([m.weight.numel() for m in s]); r.append(list(s._modules))""",
    "sequential insert refuses": "r = []\nfor i, v in ((9, Scale()), (-9, Scale()), (0, 3)):\n    try: nn.Sequential(Scale()).insert(i, v)\n    except Exception as error: r.append(type(error).__name__)",
    "sequential set refuses": "nn.Sequential(Scale())[0] = 3",
    "sequential named del": "s = nn.Sequential(OrderedDict(a=Scale(1), b=Scale(2))); del s[0]; r = [list(s._modules), s[0].weight.numel()]",
    "sequential named insert": "nn.Sequential(OrderedDict(a=Scale(), b=Scale())).insert(0, Scale())",
    "sequential arithmetic": """
        a, b = nn.Sequential(Scale(1)), nn.Sequential(Scale(2), Scale(3)); c = a + b; r = [[m.weight.numel() for m in c], len(a), c[0] is a[0]]
        a += b; r.append(len(a)); d = b * 2; r.append([m.weight.numel() for m in d]); d = 2 * b; b *= 3; r.append([len(d), len(b), b[0] is b[4], type(d).__name__])""",
    "sequential arithmetic refuses": "r = []\nfor f in ('s + [1]', 's * 0', 's * -1', 's * 1.5', '1.5 * s', 's.__iadd__(3)', 's.__imul__(0)', 's.__imul__(\"x\")'):\n    s = nn.Sequential(Scale())\n    try: r.append(str(len(eval(f))))\n    except Exception as error: r.append(type(error).__name__)",
    "modulelist": """
        l = nn.ModuleList([Scale(1), Scale(2)]); l.append(Scale(3)); l += [Scale(4)]; l.extend([Scale(5)]); l.insert(1, Scale(6)); l[0] = Scale(7)
        r = [[m.weight.numel() for m in l], list(l._modules), len(l), l[-1].weight.numel(), [m.weight.numel() for m in l[1:3]], list(l[1:3]._modules)]
        r.append(l.pop(2).weight.numel()); del l[0]; del l[1:2]; r += [[m.weight.numel() for m in l], list(l._modules), len(l + [Scale()])]""",
    "modulelist refuses": "r = []\nfor f in ('l[5]', 'l[-3]', 'l[\"a\"]', 'l.extend(3)', 'l.append(3)', 'l(1)', 'nn.ModuleList([3])', 'l.insert(-1, Scale())', 'l.pop(7)'):\n    l = nn.ModuleList([Scale(), Scale()])\n    try: r.append(type(eval(f)).__name__)\n    except Exception as error: r.append(type(error).__name__)",
    "modulelist repr": "r = [repr(nn.ModuleList()), repr(nn.ModuleList([nn.Module()])), repr(nn.ModuleList([nn.Module(), nn.Module(), Net(), Scale(), Scale()]))]",
    "moduledict": """
        d = nn.ModuleDict({"b": Scale(1), "a": Scale(2)}); d["c"] = Scale(3); d.update([["d", Scale(4)], ("a", Scale(5))]); d.update(nn.ModuleDict({"e": Scale(6)}))
        r = [list(d), [m.weight.numel() for m in d.values()], [k for k, _ in d.items()], "c" in d, "z" in d, len(d), d.pop("b").weight.numel(), list(d.keys())]
        del d["a"]; r.append(list(d)); d.clear(); r.append(len(d))""",
    "moduledict refuses": "r = []\nfor f in ('d[\"z\"]', 'd.pop(\"z\")', 'd.update(3)', 'd.update([3])', 'd.update([[1]])', 'd.update([\"abc\"])', 'd.__setitem__(\"x.y\", Scale())', 'd.__setitem__(\"keys\", Scale())', 'd.__setitem__(\"x\", 3)', 'd.__delitem__(\"z\")', 'd(1)'):\n    d = nn.ModuleDict({'a': Scale()})\n    try: r.append(type(eval(f)).__name__)\n    except Exception as error: r.append(type(error).__name__)",
    "parameterlist": """
        p = nn.ParameterList([torch.ones(1), nn.Parameter(torch.ones(2), False), "text"]); p.append(torch.ones(3)); p += [4]; p.extend([torch.ones(5)]); p[0] = torch.ones(6)
        r = [len(p), [type(v).__name__ for v in p], list(p.state_dict()), p[-1].shape, [type(v).__name__ for v in p[1:3]], repr(p), p[1].requires_grad]""",
    "parameterlist refuses": "r = []\nfor f in ('p[5]', 'p.extend(3)', 'p.extend(torch.ones(2))', 'p(1)', 'p.append(torch.ones(1, dtype=torch.int64))', 'p.__setitem__(1, 3)', 'p.__setitem__(0, 3)'):\n    p = nn.ParameterList([torch.ones(1)])\n    try: r.append(type(eval(f)).__name__)\n    except Exception as error: r.append(type(error).__name__)",
    "parameterdict": """
        d = nn.ParameterDict({"b": torch.ones(1), "a": torch.ones(2)}); d["c"] = torch.ones(3); d.update([("n", 4)]); e = d | nn.ParameterDict({"z": torch.ones(1)}); d |= {"y": torch.ones(1)}
        r = [list(d), list(e), list(reversed(d)), "a" in d, len(d), [type(v).__name__ for v in d.values()], [k for k, _ in d.items()], list(d.state_dict()), d.get("q"), d.get("q", 3), repr(d)]
        c = d.copy(); r += [c["a"] is d["a"], d.setdefault("a", 3) is d["a"], d.setdefault("s", torch.ones(1)).requires_grad, d.popitem()[0], d.pop("a").shape, list(d), list(d.fromkeys(["u", "v"], torch.ones(1)))]
        del d["b"]; d.clear(); r.append(len(d))""",
    "parameterdict refuses": "r = []\nfor f in ('d[\"z\"]', 'd.pop(\"z\")', 'd.update(3)', 'd.update([3])', 'd.update([[1]])', 'd.__setitem__(3, 1)', 'd.__setitem__(\"keys\", torch.ones(1))', 'd.__setitem__(\"a.b\", torch.ones(1))', 'd.__delitem__(\"z\")', 'd(1)', 'nn.ParameterDict().popitem()', 'd[3]'):\n    d = nn.ParameterDict({'a': torch.ones(1)})\n    try: r.append(type(eval(f)).__name__)\n    except Exception as error: r.append(type(error).__name__)",
    "container": "r = list(nn.Container(a=Scale())._modules)",
}


def plain(value: Any, torch: Any) -> Any:
    if isinstance(value, torch.Tensor):
        numbers = "meta" if value.is_meta else value.detach().double().flatten().tolist()
        return ("tensor", numbers, tuple(value.shape), str(value.dtype), value.requires_grad)
    if isinstance(value, dict):
        return {key: plain(item, torch) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, torch) for item in value]
    if isinstance(value, bool | int | float | str | None):
        return value
    return repr(value)


def outcome(torch: Any, source: str) -> dict[str, Any]:
    """What running `source` with `torch` gives: its `r`, or the type of its error, and the warnings' categories."""
    names: dict[str, Any] = {"torch": torch, "importlib": importlib, "__name__": f"snippet_for_{torch.__name__}"}
    found: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(PRELUDE, names)
        try:
            exec(textwrap.dedent(source), names)
            found["result"] = plain(names.get("r"), torch)
        except Exception as error:
            found["raises"] = type(error).__name__
            found["message"] = str(error)
    found["warnings"] = [w.category.__name__ for w in caught]
    return found


WORD = re.compile(r"\w{3,}")


def same_subject(expected: str, got: str) -> bool:
    """Two messages about the same facts share at least two fifths of the words of the first."""
    wanted = set(WORD.findall(expected.lower()))
    return not wanted or len(wanted & set(WORD.findall(got.lower()))) / len(wanted) >= 0.4


@pytest.mark.parametrize("name", CASES)
def test_snippet_behaves_as_in_pytorch(name: str) -> None:
    import torch

    import readtorch

    expected, got = outcome(torch, CASES[name]), outcome(readtorch, CASES[name])
    if expected.get("message") and "message" in got:
        assert same_subject(expected["message"], got["message"]), (expected["message"], got["message"])
    expected.pop("message", None)
    got.pop("message", None)
    assert got == expected
