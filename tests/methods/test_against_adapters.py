"""Methods that the package `adapters` has too: outputs and gradients of whole encoders, tasks mixed.

tests/golden/adapters/record.py recorded its numbers.
"""

from __future__ import annotations

import torch
from transformers import BertConfig, BertModel

import weft
from tests.support.golden import read_golden
from weft.adapters.orthonormal import orthonormal_rows
from weft.methods import build_method

NEAR = {"rtol": 1e-4, "atol": 1e-5}


class Recorded:
    """One configuration of adapters: its encoder, its parameters and what they gave."""

    def __init__(self, name: str) -> None:
        self.facts, part = read_golden("adapters", name)
        self.tasks = self.facts["tasks"]
        self.config = self.facts["config"]
        self.base, self.inputs = part("param.base."), part("in.")
        self.params = {task: part(f"param.{task}.") for task in self.tasks}
        self.grads = {task: part(f"grad.{task}.") for task in self.tasks}
        self.hidden = part("out.")["hidden"]

    def model(self, method: object) -> weft.Model:
        """weft's model on the recorded encoder."""
        encoder = BertModel(BertConfig(**self.facts["encoder"]), add_pooling_layer=False)
        encoder.load_state_dict(self.base)
        tasks = [weft.Task(name, size=2) for name in self.tasks]
        return weft.Model(encoder, tasks, build_method(method)).eval()

    def run(self, model: weft.Model) -> torch.Tensor:
        """The hidden states; the gradients of the recorded sum are then in the parameters."""
        ids, task = self.inputs["ids"], self.inputs["task"]
        hidden = model.run(input_ids=ids, attention_mask=torch.ones_like(ids), task=task).hidden
        (hidden * self.inputs["weight"]).sum().backward()
        return hidden.detach()


@torch.no_grad()
def put(adapter, name, values):
    parameter = adapter.get_parameter(name)
    parameter.copy_(values.view_as(parameter))


def test_mtl_lora():
    """adapters has the diagonal of Λ_t alone; the rest of weft's Λ_t is zero here."""
    recorded = Recorded("mtl_lora")
    config = recorded.config
    sizes = {"rank": config["r"], "alpha": config["alpha"], "maps": config["n_up_projection"]}
    model = recorded.model({"use": "mtl_lora", **sizes, "temperature": config["weights_sharpness"]})
    for site, adapter in model.placements:
        each = [recorded.params[task] for task in recorded.tasks]
        assert all(torch.equal(one[f"{site.path}.lora_A"], each[0][f"{site.path}.lora_A"]) for one in each)
        put(adapter, "A", each[0][f"{site.path}.lora_A"])
        put(adapter, "B", each[0][f"{site.path}.lora_B"])
        put(adapter, "L", torch.stack([one[f"{site.path}.task_specific.values"].diag() for one in each]))
        put(adapter, "w", torch.stack([one[f"{site.path}.weights"] for one in each]))
    torch.testing.assert_close(recorded.run(model), recorded.hidden, **NEAR)
    assert [site.kind for site, _ in model.placements] == ["query", "value"]
    for site, adapter in model.placements:
        for number, task in enumerate(recorded.tasks):
            expected = {key.removeprefix(f"{site.path}."): x for key, x in recorded.grads[task].items()}
            torch.testing.assert_close(adapter.A.grad[0], expected["lora_A"], **NEAR)
            torch.testing.assert_close(adapter.B.grad[0], expected["lora_B"], **NEAR)
            torch.testing.assert_close(adapter.w.grad[number], expected["weights"], **NEAR)
            diagonal = adapter.L.grad[number].diagonal()
            torch.testing.assert_close(diagonal, expected["task_specific.values"], **NEAR)


def test_ia3():
    recorded = Recorded("ia3")
    model = recorded.model({"use": "ia3", "sites": ["key", "value", "ffn_in"]})
    for site, adapter in model.placements:
        scales = [recorded.params[task][f"{site.path}.lora_B"] for task in recorded.tasks]
        put(adapter, "l", torch.stack(scales) - 1)
    torch.testing.assert_close(recorded.run(model), recorded.hidden, **NEAR)
    for site, adapter in model.placements:
        expected = [recorded.grads[task].pop(f"{site.path}.lora_B")[:, 0] for task in recorded.tasks]
        torch.testing.assert_close(adapter.l.grad, torch.stack(expected), **NEAR)
    assert recorded.grads == {task: {} for task in recorded.tasks}, "every recorded gradient is compared"


def test_reft():
    """The gradient of R is that of its orthonormal rows, carried on to the free matrix behind them.

    weft stores W_t − R_t: what adapters' learned source gets, R gets as well.
    """
    recorded = Recorded("loreft")
    model = recorded.model({"use": "reft", "rank": recorded.config["r"]})
    ((_, adapter),) = model.placements
    unit = "encoder.layer.0.reft_layer.units.0"
    source, shift, rotation = (
        torch.stack([recorded.params[task][f"{unit}.{name}"] for task in recorded.tasks])
        for name in ("learned_source.weight", "learned_source.bias", "projection.weight")
    )
    # another matrix with the same orthonormal rows: each row is longer, and tilted to those before it
    generator = torch.Generator().manual_seed(0)
    rank = rotation.size(1)
    tilt = torch.randn(rank, rank, generator=generator).tril(-1) + 1.7 * torch.eye(rank)
    put(adapter, "R", tilt @ rotation)
    put(adapter, "W", source - rotation)
    put(adapter, "b", shift)
    torch.testing.assert_close(recorded.run(model), recorded.hidden, **NEAR)
    grads = {
        name: torch.stack([recorded.grads[task][f"{unit}.{name}"] for task in recorded.tasks])
        for name in ("learned_source.weight", "learned_source.bias", "projection.weight")
    }
    torch.testing.assert_close(adapter.W.grad, grads["learned_source.weight"], **NEAR)
    torch.testing.assert_close(adapter.b.grad, grads["learned_source.bias"], **NEAR)
    free = adapter.R.detach().requires_grad_()
    upstream = grads["projection.weight"] + grads["learned_source.weight"]
    (expected,) = torch.autograd.grad(orthonormal_rows(free), free, upstream)
    torch.testing.assert_close(adapter.R.grad, expected, rtol=1e-3, atol=1e-4)
    assert expected.abs().max() > 0.1


def test_houlsby():
    recorded = Recorded("double_seq_bn")
    activation = recorded.config["non_linearity"]
    size = recorded.facts["encoder"]["hidden_size"] // recorded.config["reduction_factor"]
    model = recorded.model({"use": "houlsby", "size": size, "activation": activation, "norms": "none"})
    places = {"attention_delta": "encoder.layer.0.attention.output", "ffn_delta": "encoder.layer.0.output"}
    names = {
        "down.weight": "adapter_down.0.weight",
        "down.bias": "adapter_down.0.bias",
        "up.weight": "adapter_up.weight",
        "up.bias": "adapter_up.bias",
    }
    parameters = {}
    for site, adapter in model.placements:
        for name, parameter in adapter.named_parameters():
            theirs = names[".".join(name.split(".")[-2:])]
            parameters[f"{places[site.kind]}.{theirs}"] = parameter
    assert set(parameters) == set(recorded.params["a"])
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.stack([recorded.params[task][name] for task in recorded.tasks]))
    torch.testing.assert_close(recorded.run(model), recorded.hidden, **NEAR)
    for name, parameter in parameters.items():
        expected = torch.stack([recorded.grads[task][name] for task in recorded.tasks])
        torch.testing.assert_close(parameter.grad, expected, **NEAR)
