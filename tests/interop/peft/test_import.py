"""A folder of PEFT as a weft model: what PEFT itself saves, and what weft has exported."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

import weft
from tests.support.peft_twin import (
    CLOSE,
    METHODS,
    NORMS,
    SEVERAL,
    TASK,
    WEIGHTS,
    bare_classifier,
    change_json,
    config_of,
    logits,
    rows,
    saved,
)
from tests.support.tiny import build, scramble, tiny
from tests.support.tiny_run import save_encoder
from weft.cli import run
from weft.interop import export_peft, load_peft

SITES = {
    "bert": ["query", "value", "attention.output.dense"],
    "modernbert": ["Wqkv", "Wi"],
    "distilbert": ["q_lin", "lin2"],
}


@pytest.fixture
def plain(tmp_path):
    """A folder of PEFT's for BERT's query."""
    saved(tmp_path / "x", tiny("bert"), target_modules=["query"], r=3)
    return tmp_path / "x"


def loaded(folder, family, task=TASK, notes=0):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = load_peft(folder, tiny(family), task)
    assert len([w for w in told if w.category is UserWarning]) == notes
    return model


def assert_same(ours, theirs, task):
    """Two weft models, hidden states and logits."""
    inputs, mask, expected = rows(theirs, task)
    found = ours.run(**inputs)
    torch.testing.assert_close(found.hidden[mask].detach(), expected.hidden[mask], **CLOSE)
    torch.testing.assert_close(logits(ours, found, task).detach(), logits(theirs, expected, task), **CLOSE)


@pytest.mark.parametrize(
    "settings",
    [
        {"r": 3, "lora_alpha": 6},
        {"r": 4, "lora_alpha": 3, "use_rslora": True},
        {"r": 2, "lora_alpha": 5, "lora_bias": True},
        {"r": 3, "rank_pattern": {"0.*": 1}, "alpha_pattern": {"1.*": 7}},
        {"r": 3, "rank_pattern": {r".*layers?\.1\..*": 5}},
        # the first that fits; PEFT sorts them when it saves, so they are in that order already
        {"r": 3, "alpha_pattern": {r"0\..*": 7, r"\w.*": 2}},
        {"r": 3, "init_lora_weights": "gaussian", "lora_alpha": 1},
        {"r": 3, "lora_alpha": 6, "use_dora": True},
        {"r": 2, "lora_alpha": 5, "use_dora": True, "use_rslora": True, "rank_pattern": {"0.*": 1}},
    ],
)
@pytest.mark.parametrize("family", SITES)
def test_what_peft_saves_computes_the_same(tmp_path, family, settings):
    twin = saved(tmp_path / "x", tiny(family), target_modules=SITES[family], **settings)
    model = loaded(tmp_path / "x", family, notes=1)  # there is no head, and that is said
    inputs, mask, ours = rows(model, "a")
    with torch.no_grad():
        expected = twin(**inputs).last_hidden_state
        with twin.disable_adapter():
            away = (expected - twin(**inputs).last_hidden_state)[mask].abs().max()
    assert away > 0.05
    torch.testing.assert_close(ours.hidden[mask], expected[mask], **CLOSE)
    names = {"lora_bias": "lora_bitfit", "use_dora": "dora"}
    assert model.method.name == next((name for key, name in names.items() if settings.get(key)), "lora")
    assert model.method.alpha is None


def test_places_without_a_lora_have_rank_0(tmp_path):
    paths = [f"encoder.layer.{place}" for place in ("0.attention.self.query", "1.output.dense")]
    saved(tmp_path / "x", tiny("bert"), target_modules=paths, r=2, rank_pattern={"query": 3})
    model = loaded(tmp_path / "x", "bert", notes=1)
    assert {site.key: adapter.rank for site, adapter in model.placements} == {"0/query": 3, "1/ffn_out": 2}
    assert model.method.rank_pattern == {"1/query": 0, "0/ffn_out": 0, "1/ffn_out": 2}


def test_a_fused_map_becomes_its_slices_with_one_a(tmp_path):
    twin = saved(tmp_path / "x", tiny("modernbert"), target_modules=["Wqkv"], r=3, lora_alpha=6)
    model = loaded(tmp_path / "x", "modernbert", notes=1)
    assert model.method.sites == ("query", "key", "value")
    a = twin.base_model.model.layers[1].attn.Wqkv.lora_A["default"].weight
    b = twin.base_model.model.layers[1].attn.Wqkv.lora_B["default"].weight
    for part, kind in enumerate(("query", "key", "value")):
        (adapter,) = model.adapters[f"1/{kind}"]
        assert torch.equal(adapter.A[0], a)
        assert torch.equal(adapter.B[0], 2 * b.chunk(3)[part])


def test_an_untrained_lora_keeps_its_rank(tmp_path):
    get_peft_model(tiny("modernbert"), LoraConfig(r=3, target_modules=["Wqkv"])).save_pretrained(
        tmp_path / "x"
    )
    model = loaded(tmp_path / "x", "modernbert", notes=1)
    assert {adapter.rank for _, adapter in model.placements} == {3}
    assert len(model.placements) == 9


@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.parametrize("name", METHODS)
def test_a_round_trip(tmp_path, family, name):
    model = scramble(build(family, METHODS[name], SEVERAL))
    for task in "abc":
        back = loaded(export_peft(model, task, tmp_path / task), family, task=None)
        assert back.tasks == (model.tasks[model.task_id(task)],)
        assert (back.pool, back.max_length) == (model.pool, model.max_length)
        assert_same(back, model, task)
        again = loaded(export_peft(back, task, tmp_path / f"{task}-again", head="file"), family, task=None)
        assert_same(again, model, task)
        assert again.method == back.method  # nothing grows on the way


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("head", ["auto", "file"])
def test_a_round_trip_with_norms(tmp_path, family, name, head):
    model = scramble(build(family, NORMS[name], SEVERAL))
    back = loaded(export_peft(model, "b", tmp_path / "x", head=head), family, task=None)
    assert_same(back, model, "b")
    assert ("task_norm" in [part.name for part in back.method.parts]) == (name == "task_norm")


def test_an_encoder_that_is_drawn_is_drawn_again(tmp_path):
    model = scramble(weft.Model("random:bert-tiny", SEVERAL, "lora", seed=3).eval())
    back = load_peft(export_peft(model, "a", tmp_path / "x"))
    assert_same(back, model, "a")
    assert_same(weft.load(back.save(tmp_path / "bundle")).eval(), model, "a")


def test_only_the_sites_and_ranks_that_were_there(tmp_path):
    model = scramble(build("modernbert", METHODS["lora ranks"], SEVERAL))
    back = loaded(export_peft(model, "a", tmp_path / "x"), "modernbert", task=None)
    assert {s.key: a.rank for s, a in back.placements} == {s.key: a.rank for s, a in model.placements}


@pytest.mark.parametrize("task_type", ["SEQ_CLS", None])
@pytest.mark.parametrize("family", ["bert"])
def test_a_classifier_of_pefts_own(tmp_path, family, task_type):
    saving = None if task_type else ["classifier"]
    twin = saved(
        tmp_path / "x",
        bare_classifier(family, 2),
        target_modules=["query", "pooler.dense"],
        r=3,
        task_type=task_type,
        modules_to_save=saving,
    )
    model = loaded(tmp_path / "x", family)
    inputs, _, ours = rows(model, "a")
    with torch.no_grad():
        torch.testing.assert_close(logits(model, ours, "a"), twin(**inputs).logits, **CLOSE)


def test_a_pooler_that_nothing_reads_is_left_out_and_said(tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    (encoder / "1_Pooling").mkdir()
    (encoder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    saved(tmp_path / "x", tiny("bert"), target_modules=["query", "pooler.dense"])
    with pytest.warns(UserWarning, match="update of the pooler is left out: the head reads 'mean'"):
        model = load_peft(tmp_path / "x", encoder, TASK)
    assert {site.kind for site, _ in model.placements} == {"query"}


def test_an_older_file_of_weights_is_read(plain):
    torch.save(load_file(plain / WEIGHTS), plain / "adapter_model.bin")
    expected = loaded(plain, "bert", notes=1)
    (plain / WEIGHTS).unlink()
    assert_same(loaded(plain, "bert", notes=1), expected, "a")


def test_names_and_labels_given_go_first(tmp_path):
    folder = export_peft(scramble(build("bert", "lora", SEVERAL)), "b", tmp_path / "x")
    assert loaded(folder, "bert", task="other").tasks[0].name == "other"
    given = weft.Task("b", labels=("p", "q", "r"), texts=("u",))
    assert loaded(folder, "bert", task=given).tasks == (given,)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An encoder with files, and a classifier that PEFT has trained on it."""
    folder = tmp_path_factory.mktemp("import")
    save_encoder(folder / "encoder")
    twin = saved(folder / "peft", bare_classifier("bert", 2), target_modules=["query"], task_type="SEQ_CLS")
    change_json(folder / "peft" / "adapter_config.json", base_model_name_or_path=str(folder / "encoder"))
    return folder, twin


def test_the_command(place, tmp_path, capsys):
    folder, twin = place
    out = tmp_path / "bundle"
    options = ["--task", "cat", "--labels", "no,yes", "--texts", "text"]
    assert run(["import", str(folder / "peft"), "--out", str(out), *options, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["task"]["name"], told["task"]["labels"], told["method"]) == ("cat", ["no", "yes"], ["lora"])
    model = weft.load(out).eval()
    inputs, _, ours = rows(model, "cat")
    with torch.no_grad():
        torch.testing.assert_close(logits(model, ours, "cat"), twin(**inputs).logits, **CLOSE)
    assert model.predict([("cat", "the old cat")])[0]["label"] in ("no", "yes")
    # and back again, by commands alone
    assert run(["export", str(out), "--to", "peft", "--out", str(tmp_path / "back")]) == 0
    assert config_of(tmp_path / "back")["task_type"] == "SEQ_CLS"
    assert run(["import", str(tmp_path / "back"), "--out", str(tmp_path / "again")]) == 0
    assert_same(weft.load(tmp_path / "again").eval(), model, "cat")


def test_the_command_says_when_there_is_no_head(place, tmp_path, capsys):
    folder, _ = place
    saved(tmp_path / "x", tiny("bert"), target_modules=["query"])
    options = ["--encoder", str(folder / "encoder"), "--task", "n", "--kind", "regress", "--texts", "u, v"]
    assert run(["import", str(tmp_path / "x"), "--out", str(tmp_path / "bundle"), *options]) == 0
    told = capsys.readouterr()
    assert "note: " in told.err
    assert "has no head for the task 'n'" in told.err
    assert "regress-1, method lora" in told.out
    assert weft.load(tmp_path / "bundle").tasks[0].texts == ("u", "v")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "does not name its task; pass --task NAME"),
        (["--task", "t"], "--labels no,yes, or --kind regress"),
        (["--task", "t", "--labels", "x,y,z"], "its head has 2 outputs; the task 't' has 3"),
        (["--task", "t", "--kind", "regres"], "did you mean 'regress'?"),
        (["--task", "t", "--labels", "x,y", "--encoder", "./nowhere"], "there is no such folder"),
        (["--task", "t", "--labels", "a,"], "--labels 'a,': name 2 of 2 is empty; expected names"),
        (["--task", "t", "--labels", "a,,b"], "--labels 'a,,b': name 2 of 3 is empty"),
        (["--task", "t", "--labels", ""], "--labels '': name 1 of 1 is empty"),
        (["--task", "t", "--labels", "a,b", "--texts", ","], "--texts ',': name 1 of 2 is empty"),
    ],
)
def test_a_users_mistakes(place, tmp_path, capsys, options, told):
    folder, _ = place
    assert run(["import", str(folder / "peft"), "--out", str(tmp_path / "x"), *options]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert "Traceback" not in said
    assert not (tmp_path / "x").exists()


def test_an_encoder_that_is_gone(plain, tmp_path, capsys):
    for name, told in (
        (str(tmp_path / "gone"), "pass its folder or hub id: --encoder"),
        (None, "pass --encoder"),
    ):
        change_json(plain / "adapter_config.json", base_model_name_or_path=name)
        options = ["--task", "t", "--labels", "x,y"]
        assert run(["import", str(plain), "--out", str(tmp_path / "b"), *options]) == 2
        assert told in capsys.readouterr().err
