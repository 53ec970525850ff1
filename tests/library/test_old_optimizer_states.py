"""State dicts of optimizers as older releases saved them: fewer options, and counters that are Python numbers."""

from __future__ import annotations

import pytest

import readtorch as torch

NAMES = ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "RMSprop", "Rprop", "Adamax", "ASGD", "NAdam", "RAdam"]
YOUNGER = {
    "foreach",
    "maximize",
    "differentiable",
    "capturable",
    "fused",
    "decoupled_weight_decay",
    "nesterov",
    "amsgrad",
}


@pytest.mark.parametrize("name", NAMES)
def test_an_old_state_goes_on_as_if_it_were_new(name: str) -> None:
    results = []
    for old in (False, True):
        parameter = torch.nn.Parameter(torch.ones(2))
        optimizer = getattr(torch.optim, name)([parameter])
        parameter.grad = torch.tensor([1.0, -2.0])
        optimizer.step()
        saved = optimizer.state_dict()
        (group,) = saved["param_groups"]
        if old:
            for option in YOUNGER & set(group):
                del group[option]
            for own in saved["state"].values():
                own.update({counter: float(own[counter]) for counter in {"step", "eta", "mu"} & set(own)})
        optimizer.load_state_dict(saved)
        optimizer.step()
        options = {key: value for key, value in optimizer.param_groups[0].items() if key != "params"}
        results.append(
            (parameter.tolist(), options, {key: type(value) for key, value in optimizer.state[parameter].items()})
        )
    assert results[0][0] == results[1][0]
    assert results[0][2] == results[1][2]
    assert results[0][1].keys() == results[1][1].keys()
