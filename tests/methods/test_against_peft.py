"""Methods that PEFT has too: outputs, gradients and counts of whole encoders, task by task."""

from __future__ import annotations

import pytest
import torch
from peft import IA3Config, RoadConfig, get_peft_model
from transformers import AutoConfig, AutoModel

import weft
from tests.support.tiny import TASKS, batch, build, scramble, tiny

FEED_FORWARD = r".*layer\.\d+\.output\.dense"
"""PEFT's own table for BERT has the attention's output map among the feed-forward ones; the paper has not."""


def road_of(group):
    return RoadConfig(variant="road_1", group_size=group, target_modules=["query", "value"])


def ia3():
    names = rf".*(key|value)|{FEED_FORWARD}"
    return IA3Config(target_modules=names, feedforward_modules=FEED_FORWARD)


CASES = {
    "road": (
        {"use": "road", "group": 8},
        lambda: road_of(8),
        {"theta": ("road_theta", 0), "alpha": ("road_alpha", 1)},
    ),
    "ia3": ("ia3", ia3, {"l": ("ia3_l", 1)}),
}
"""Our method, PEFT's configuration and, for each of our parameters, PEFT's and how much larger it is."""


def twin_of(model, number, config, names):
    """PEFT's model with the parameters of one task."""
    twin = get_peft_model(tiny("bert"), config).eval()
    for site, adapter in model.placements:
        layer = twin.base_model.model.get_submodule(site.path)
        for ours, (theirs, more) in names.items():
            target = getattr(layer, theirs)["default"]
            with torch.no_grad():
                target.copy_((adapter.get_parameter(ours)[number] + more).view_as(target))
    return twin


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_equal_pefts(name):
    method, config, names = CASES[name]
    model = scramble(build("bert", method))
    inputs = batch(model)
    task, mask = inputs["task"], inputs["attention_mask"].bool()
    ours = model.run(**inputs)
    ours.hidden[mask].square().sum().backward()
    for number in range(len(TASKS)):
        twin = twin_of(model, number, config(), names)
        rows = task == number
        found = twin(inputs["input_ids"][rows], attention_mask=inputs["attention_mask"][rows])
        hidden = found.last_hidden_state[mask[rows]]
        torch.testing.assert_close(ours.hidden[rows][mask[rows]], hidden, rtol=1e-5, atol=1e-5)
        hidden.square().sum().backward()
        for site, adapter in model.placements:
            layer = twin.base_model.model.get_submodule(site.path)
            for one, (theirs, _) in names.items():
                gradient = adapter.get_parameter(one).grad[number]
                expected = getattr(layer, theirs)["default"].grad
                torch.testing.assert_close(gradient, expected.view_as(gradient), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("method", "config", "count"), [("road", lambda: road_of(64), 18_432), ("ia3", ia3, 55_296)]
)
def test_counts_on_bert_base_are_pefts(method, config, count):
    with torch.device("meta"):
        twin = get_peft_model(AutoModel.from_config(AutoConfig.for_model("bert")), config())
    assert twin.get_nb_trainable_parameters()[0] == count
    model = weft.Model("random:bert-base", TASKS, method, device="meta")
    assert set(model.ledger()["per_task"].values()) == {count}
