"""LoRA-XS against its equation, its counts, and its constant factors in files and checkpoints."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

import weft
from tests.support.tiny import TASKS, batch, build, scramble, tiny
from tests.support.tiny_run import save_encoder
from weft.errors import WeftError
from weft.model.ownership import owned
from weft.training.run.checkpoint import trained_tensors

METHOD = {"use": "lora_xs", "rank": 4, "alpha": 2}


@torch.no_grad()
def move_cores(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _, adapter in model.placements:
        adapter.R.copy_(torch.randn(adapter.R.shape, generator=generator))
    return model


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_it_is_a_matrix_between_the_singular_vectors(family):
    model = move_cores(build(family, METHOD))
    bare = tiny(family)
    for site, adapter in model.placements:
        index, parts = site.part
        weight = bare.get_submodule(site.path).weight.chunk(parts)[index].detach()
        u, s, vt = torch.linalg.svd(weight)
        torch.testing.assert_close(
            adapter.B[0] @ adapter.A[0], u[:, :4] * s[:4] @ vt[:4], rtol=1e-3, atol=1e-4
        )
        torch.testing.assert_close(adapter.A[0] @ adapter.A[0].T, torch.eye(4), rtol=0, atol=1e-5)
        x, task = torch.randn(5, 3, site.in_width), torch.tensor([0, 3, 1, 2, 3])
        expected = 0.5 * torch.einsum("op,tpq,qi,tli->tlo", adapter.B[0], adapter.R[task], adapter.A[0], x)
        found = adapter(x, weft.core.route.Route(task))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        grad = torch.autograd.grad(found.square().sum(), adapter.R)[0]
        torch.testing.assert_close(
            grad, torch.autograd.grad(expected.square().sum(), adapter.R)[0], rtol=1e-3, atol=1e-3
        )


def test_parameters_of_a_task_on_bert_base():
    model = weft.Model("random:bert-base", TASKS, "lora_xs", device="meta")
    counted = model.ledger()
    assert set(counted["per_task"].values()) == {6_144}  # 24·16²
    assert counted["shared"] == 24 * 16 * 2 * 768
    heads = {id(p) for p in model.heads.parameters()}
    trained = [p for p in model.parameters() if p.requires_grad and id(p) not in heads]
    assert sum(p.numel() for p in trained) == 4 * 6_144


def test_only_cores_train():
    model = build("bert", METHOD)
    items = [item for item in owned(model) if item.part == "adapters"]
    assert {item.name.rpartition(".")[2] for item in items if item.trains} == {"R"}
    assert {item.name.rpartition(".")[2] for item in items if item.constant} == {"A", "B"}
    assert {item.owner for item in items if item.constant} == {"shared"}


def test_factors_are_in_the_shared_file_and_in_checkpoints(tmp_path):
    """Whoever loads them uses these, not those of a decomposition of its own."""
    model = move_cores(weft.Model(save_encoder(tmp_path / "encoder"), TASKS, METHOD, max_length=24).eval())
    turn = torch.linalg.qr(torch.randn(4, 4)).Q
    with torch.no_grad():  # a decomposition that this machine would not find
        for _, adapter in model.placements:
            adapter.A.copy_(turn @ adapter.A)
            adapter.B.copy_(adapter.B @ turn.T)
    model.save(tmp_path / "bundle")
    assert {key.rpartition(".")[2] for key in load_file(tmp_path / "bundle" / "shared.safetensors")} == {
        "A",
        "B",
    }
    again = weft.load(tmp_path / "bundle")
    inputs = batch(model)
    with torch.no_grad():
        assert torch.equal(again.run(**inputs).hidden, model.run(**inputs).hidden)
    kept = trained_tensors(model)
    assert all(f"adapters.{site.key}.0.{name}" in kept for site, _ in model.placements for name in "ABR")


def test_bundles_with_equal_factors_are_assembled(tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    folders = []
    for number, task in enumerate(TASKS[:2]):
        model = move_cores(weft.Model(encoder, [task], METHOD, max_length=24).eval(), number)
        folders.append(model.save(tmp_path / task.name))
    weft.assemble(folders, tmp_path / "both")
    both = weft.load(tmp_path / "both")
    inputs = batch(both)
    with torch.no_grad():
        found = both.run(**inputs).hidden
        for number, folder in enumerate(folders):
            rows = inputs["task"] == number
            alone = weft.load(folder)
            single = {k: v[rows] for k, v in inputs.items() if k != "task"}
            torch.testing.assert_close(found[rows], alone.run(**single).hidden, rtol=1e-5, atol=1e-5)
    changed = weft.load(folders[1])
    with torch.no_grad():
        changed.placements[0][1].A.mul_(2.0)
    with pytest.raises(WeftError, match="shared weights of bundles"):
        weft.assemble([folders[0], changed.save(tmp_path / "other")], tmp_path / "x")


def test_a_task_that_is_added_uses_the_same_factors(tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    model = scramble(weft.Model(encoder, TASKS[:2], METHOD, max_length=24).eval())
    grown = weft.bundle.load.load_changed(model.save(tmp_path / "bundle"), added=[TASKS[2]])
    for (_, old), (_, new) in zip(model.placements, grown.placements, strict=True):
        assert torch.equal(old.A, new.A)
        assert torch.equal(old.R, new.R[:2])
        assert not new.R[2].any()
