"""An exported folder in the real PEFT computes what the model computes, or the export says why it cannot."""

from __future__ import annotations

import copy
import itertools
import json

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel

import weft
from tests.support.peft_twin import (
    CLOSE,
    METHODS,
    NORMS,
    SEVERAL,
    config_of,
    load,
    load_classifier,
    logits,
    rows,
)
from tests.support.tiny import CONFIGS, CORE_FAMILIES, FAMILIES, build, scramble
from weft.adapters.ranked import RankedAdapter
from weft.interop import export_peft

OWN_HEAD = (
    *("bert", "roberta", "xlm-roberta", "camembert", "mpnet", "ernie", "data2vec-text", "rembert", "albert"),
    *("megatron-bert", "roberta-prelayernorm", "xlm-roberta-xl", "esm", "jina_embeddings_v3"),
)


@torch.no_grad()
def made(family: str, method: object, **settings: object) -> weft.Model:
    """A model far from its start; where it has gates, some are shut, in layer 0 all of the query's."""
    model = scramble(build(family, method, SEVERAL, **settings))
    for site, adapter in model.placements:
        if isinstance(adapter, RankedAdapter) and adapter.gate is not None:
            adapter.gate.alpha.fill_(10.0)
            adapter.gate.alpha[:, 1] = -10.0
            if site.key == "0/query":
                adapter.gate.alpha.fill_(-10.0)
    return model


def assert_equal_in_peft(model, family, task, folder):
    """Hidden states, and the logits by the head that lies beside the encoder."""
    inputs, mask, ours = rows(model, task)
    twin = load(family, folder)
    with torch.no_grad():
        found = twin(**inputs)
    torch.testing.assert_close(found.last_hidden_state[mask], ours.hidden[mask], **CLOSE)
    head = load_file(folder / "head.safetensors")
    pooled = {
        "pooler": lambda: found.pooler_output,
        "cls": lambda: found.last_hidden_state[:, 0],
        "mean": lambda: (found.last_hidden_state * mask[..., None]).sum(1) / mask.sum(1, keepdim=True),
    }[model.pool]()
    torch.testing.assert_close(pooled @ head["weight"].T + head["bias"], logits(model, ours, task), **CLOSE)
    return twin


@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.parametrize("name", METHODS)
def test_peft_computes_the_same(tmp_path, family, name):
    model = made(family, METHODS[name])
    bare = build(family, "frozen", SEVERAL)
    for task in "abc":
        folder = export_peft(model, task, tmp_path / task, head="file")
        twin = assert_equal_in_peft(model, family, task, folder)
        inputs, mask, ours = rows(model, task)
        away = (ours.hidden - rows(bare, task)[2].hidden)[mask].abs().max()
        assert away > 0.05 or name == "frozen"  # else nothing would have been compared
        if config_of(folder)["lora_bias"] and family == "modernbert":
            with pytest.raises(RuntimeError, match="no bias"):  # as the README of the folder says
                twin.merge_and_unload()
            assert "merge_and_unload" in (folder / "README.md").read_text()
        else:
            with torch.no_grad():
                merged = twin.merge_and_unload()(**inputs).last_hidden_state
            torch.testing.assert_close(merged[mask], ours.hidden[mask], **CLOSE)
            assert "merge_and_unload" not in (folder / "README.md").read_text()


RMS_NORMS = ("eurobert", "ultrabert")
OTHERS = [f for f in FAMILIES if f not in ("bert", "modernbert")]


@pytest.mark.parametrize(
    ("core", "family"), [*itertools.product(("cp", "tucker"), OTHERS), *(("cp", f) for f in CORE_FAMILIES)]
)
def test_morris_on_every_family(tmp_path, core, family):
    sites = ["query", "key", "value", "attention_out", "ffn_in", "ffn_out"]
    biases = "dense" if family in RMS_NORMS else "all"  # PEFT cannot give a norm a bias that it does not have
    model = made(family, {"use": "morris", "rank": 4, "core": core, "sites": sites, "biases": biases})
    assert_equal_in_peft(model, family, "b", export_peft(model, "b", tmp_path / "b", head="file"))


@pytest.mark.parametrize("name", NORMS)
def test_norms_go_along_whole(tmp_path, name):
    model = made("bert", NORMS[name])
    folder = export_peft(model, "a", tmp_path / "x", head="file")
    saved = config_of(folder)["modules_to_save"]
    norms = {site.path for site, _ in model.placements if "norm" in site.kind}
    assert set(saved) == norms != set()
    inputs, mask, ours = rows(model, "a")
    with torch.no_grad():
        merged = (
            assert_equal_in_peft(model, "bert", "a", folder).merge_and_unload()(**inputs).last_hidden_state
        )
    torch.testing.assert_close(merged[mask], ours.hidden[mask], **CLOSE)


@pytest.mark.parametrize("pool", ["mean", "cls"])
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_the_head_reads_what_it_read(tmp_path, family, pool):
    model = made(family, "lora", pool=pool)
    folder = export_peft(model, "c", tmp_path / "x")
    assert config_of(folder)["task_type"] == "FEATURE_EXTRACTION"
    assert_equal_in_peft(model, family, "c", folder)
    said = json.loads((folder / "weft.json").read_text())
    assert (said["pool"], said["max_length"]) == (pool, model.max_length)
    assert said["task"] == model.tasks[2].settings()


@pytest.mark.parametrize(
    ("task", "family"), [*itertools.product("abc", FAMILIES), *(("b", f) for f in CORE_FAMILIES)]
)
def test_the_familys_own_head_where_it_is_the_same_function(tmp_path, task, family):
    model = made(family, {"use": "lora_bitfit", "rank": 2})
    folder = export_peft(model, task, tmp_path / "x")
    own = config_of(folder)["task_type"] == "SEQ_CLS"
    assert own == (family in OWN_HEAD) == (not (folder / "head.safetensors").exists())
    if not own:
        assert_equal_in_peft(model, family, task, folder)
        return
    inputs, _, ours = rows(model, task)
    twin = load_classifier(family, folder, model.tasks[model.task_id(task)].size)
    with torch.no_grad():
        torch.testing.assert_close(twin(**inputs).logits, logits(model, ours, task), **CLOSE)
        merged = twin.merge_and_unload()(**inputs).logits
    torch.testing.assert_close(merged, logits(model, ours, task), **CLOSE)


@pytest.mark.parametrize(("family", "own"), [("bert", True), ("roberta", False)])
@pytest.mark.parametrize("biases", [False, True])
def test_an_update_of_the_pooler(tmp_path, family, own, biases):
    """RoBERTa's classifier brings the pooler along, where PEFT has no place for an update of it."""
    method = "bitfit" if biases else {"use": "lora", "sites": "query, pooler"}
    model = made(family, method)
    folder = export_peft(model, "b", tmp_path / "x")
    assert (config_of(folder)["task_type"] == "SEQ_CLS") == own
    if own:
        inputs, _, ours = rows(model, "b")
        found = load_classifier(family, folder, 3)(**inputs).logits
        torch.testing.assert_close(found.detach(), logits(model, ours, "b"), **CLOSE)
    else:
        assert_equal_in_peft(model, family, "b", folder)


@torch.no_grad()
def test_the_factors_are_the_tensors_own(tmp_path):
    """MORRIS: lora_A = Cᵀ and lora_B = A·diag(B_t) to the last bit; Tucker: A·G_t."""
    for core in ("cp", "tucker"):
        model = made("bert", {"use": "morris", "rank": 4, "core": core, "biases": "none"})
        tensors = load_file(
            export_peft(model, "b", tmp_path / core, head="file") / "adapter_model.safetensors"
        )
        assert len(tensors) == 2 * len(model.placements)
        for site, adapter in model.placements:
            up = adapter.A[0] * adapter.B[1] if core == "cp" else adapter.A[0] @ adapter.core(1)
            assert torch.equal(tensors[f"base_model.model.{site.path}.lora_A.weight"], adapter.C[0].T)
            assert torch.equal(tensors[f"base_model.model.{site.path}.lora_B.weight"], up)


def test_shut_components_and_dead_sites_are_left_out(tmp_path):
    model = made("bert", METHODS["morris gates"] | {"biases": "none"})
    config = config_of(export_peft(model, "a", tmp_path / "x", head="file"))
    paths = {site.key: site.path for site, _ in model.placements}
    assert paths["0/query"] not in config["target_modules"]
    assert set(config["target_modules"]) == set(paths.values()) - {paths["0/query"]}
    assert config["r"] == config["lora_alpha"] == 3
    assert config["lora_bias"] is False


def test_ranks_and_alphas_go_together(tmp_path):
    model = made("bert", METHODS["lora ranks"])
    config = config_of(export_peft(model, "a", tmp_path / "x", head="file"))
    path = next(site.path for site, _ in model.placements if site.key == "0/query")
    assert config["rank_pattern"] == config["alpha_pattern"] == {path: 1}
    assert config["r"] == config["lora_alpha"] == 4


def test_many_layers_and_ranks(tmp_path):
    """Layers 1 and 10 have paths that begin alike, and PEFT shortens a list of 20 targets or more."""
    config = AutoConfig.for_model("bert", **CONFIGS["bert"][1] | {"num_hidden_layers": 12})
    torch.manual_seed(0)
    encoder = AutoModel.from_config(config).eval()
    ranks = {f"{n}/{kind}": (n + len(kind)) % 5 for n in range(12) for kind in ("query", "ffn_out")}
    method = {"use": "lora", "rank": 7, "sites": "query, key, ffn_out", "rank_pattern": ranks}
    model = scramble(weft.Model(copy.deepcopy(encoder), SEVERAL, method).eval())
    folder = export_peft(model, "a", tmp_path / "x", head="file")
    assert len(config_of(folder)["target_modules"]) == 36 - list(ranks.values()).count(0) > 20
    inputs, mask, ours = rows(model, "a")
    twin = PeftModel.from_pretrained(encoder, str(folder)).eval()
    found = twin(**inputs).last_hidden_state.detach()
    torch.testing.assert_close(found[mask], ours.hidden[mask], **CLOSE)


def test_equal_maps_down_are_there_once(tmp_path):
    """A LoRA of a fused map, as PEFT trains it, has one A for query, key and value."""
    model = made("modernbert", {"use": "lora", "rank": 3, "sites": "query, key, value"})
    with torch.no_grad():
        for site, adapter in model.placements:
            adapter.A.copy_(model.adapters[f"{site.layer}/query"][0].A)
    folder = export_peft(model, "a", tmp_path / "x")
    assert config_of(folder)["r"] == 3
    assert_equal_in_peft(model, "modernbert", "a", folder)


ALONE = {"train_encoder": "none"}
PALS = {"use": "pals", "d_s": 12, "heads": 3}
REFUSED = {
    "pals": (PALS | ALONE, "bert", "Adapter at '0/", "--to onnx"),
    "trained pals": (PALS, "bert", "train_encoder: all", "--to onnx"),
    "houlsby": (
        {"use": "houlsby", "size": 8} | ALONE,
        "bert",
        "Adapter at '0/attention_delta'",
        "--to onnx",
    ),
    "top": ({"use": "top_attention", "d_s": 12, "heads": 3} | ALONE, "bert", "at 'top'", "--to onnx"),
    "lhuc": ({"use": "lhuc"} | ALONE, "bert", "LhucAdapter at '0/block'", "--to onnx"),
    "full": ("full", "bert", "train_encoder: all", "--to hf"),
    "biases": ({"use": "lora", "train_encoder": "biases"}, "bert", "train_encoder: biases", "--to hf"),
    "separate": ("separate", "bert", "gives each task a separate encoder", "--to hf"),
    "norms": (NORMS["morris norms"], "modernbert", "LowRankBiasAdapter at '0/norm_2'", "--to hf"),
    "dora and biases": (
        [{"use": "bitfit", "biases": "dense"}, {"use": "dora", "rank": 2}],
        "bert",
        "BiasAdapter at '0/query'.*PEFT adds no biases to a DoRA",
        "--to hf",
    ),
    "dora and lora": (
        [{"use": "lora", "rank": 2}, {"use": "dora", "rank": 2}],
        "bert",
        "LoraAdapter at '0/query'.*PEFT normalizes every update",
        "--to hf",
    ),
    "own norms": ("task_norm", "modernbert", "TaskNormAdapter at", "--to hf"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_peft_cannot_hold_is_refused_by_name(tmp_path, name):
    method, family, named, instead = REFUSED[name]
    model = made(family, method)
    with pytest.raises(weft.WeftError, match=named) as refused:
        export_peft(model, "a", tmp_path / "x")
    assert instead in str(refused.value)
    assert not list(tmp_path.iterdir())
    if instead == "--to hf":
        model.merge("a")  # what the message says works


def test_a_map_of_the_tasks_own_is_refused(tmp_path):
    model = made(
        "bert", {"use": "low_rank", "d_s": 4, "pooler": "task", "layers": 0, "train_encoder": "none"}
    )
    model.placements = [(site, one) for site, one in model.placements if site.kind == "pooler"]
    with pytest.raises(weft.WeftError, match=r"TaskLinearAdapter at 'pooler'.*not of low rank"):
        export_peft(model, "a", tmp_path / "x")


@pytest.mark.parametrize("place", ["adapters.0/query.0.B", "adapters.1/key.0.v", "heads.classify-2.bias"])
def test_what_is_not_finite_is_refused(tmp_path, place):
    model = made("bert", METHODS["lora_bitfit"])
    with torch.no_grad():
        dict(model.named_parameters())[place][0].flatten()[0] = torch.nan
    where = "its head" if "heads" in place else f"its update of '{place[9:].partition('.')[0]}'"
    with pytest.raises(weft.WeftError, match=f"'a' cannot be exported .*{where}: not finite numbers"):
        export_peft(model, "a", tmp_path / "x")
    assert not list(tmp_path.iterdir())
    export_peft(model, "b", tmp_path / "b")  # the others are sound


def test_a_folder_of_something_else_stays(tmp_path):
    model = made("bert", "lora")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "adapter_config.json").write_text("{}")
    with pytest.raises(weft.WeftError, match="is not an export"):
        export_peft(model, "a", tmp_path / "mine")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["adapter_config.json"]
    export_peft(model, "a", tmp_path / "x", head="file")
    export_peft(model, "b", tmp_path / "x")  # an export is replaced as a whole
    assert not (tmp_path / "x" / "head.safetensors").exists()
