"""Folders of PEFT that weft does not read: each is refused by name, with the reason."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

import weft
from tests.support.every_kind import MARKS
from tests.support.peft_twin import SEVERAL, TASK, WEIGHTS, bare_classifier, change_json, saved
from tests.support.tiny import build, scramble, tiny
from weft.interop import export_peft, load_peft

REFUSED_SETTINGS = {
    "peft_type": ("IA3", "peft_type 'IA3'; weft reads only LORA"),
    "use_dora": (True, "has no lora_magnitude_vector, but use_dora is set"),
    "target_parameters": (["x"], "target_parameters is set"),
    "trainable_token_indices": ([1], "trainable_token_indices is set"),
    "layer_replication": ([[0, 1]], "layer_replication is set"),
    "alora_invocation_tokens": ([1], "alora_invocation_tokens is set"),
    "bias": ("all", "bias 'all'"),
}

WRONG_SETTINGS = [
    ("rank_pattern", [1], "rank_pattern: expected numbers by module; found .1."),
    ("rank_pattern", {"query": 0}, "rank_pattern: 'query': expected a whole number of at least 1; found 0"),
    ("rank_pattern", {"nothing": "x"}, "rank_pattern: 'nothing': expected a whole number .* found 'x'"),
    ("alpha_pattern", {"(": 1}, r"alpha_pattern: '\(' is not a valid pattern"),
    ("alpha_pattern", {"query": float("nan")}, "alpha_pattern: 'query': expected a finite number; found nan"),
    ("alpha_pattern", "x", "alpha_pattern: expected numbers by module; found 'x'"),
    ("r", "many", "r: expected a whole number of at least 1; found 'many'"),
    ("r", 0, "r: expected a whole number of at least 1; found 0"),
    ("r", 3.0, "r: expected a whole number of at least 1; found 3.0"),
    ("r", True, "r: expected a whole number of at least 1; found True"),
    ("r", None, "r: expected a whole number of at least 1; found None"),
    ("lora_alpha", None, "lora_alpha: expected a finite number; found None"),
    ("lora_alpha", "8", "lora_alpha: expected a finite number; found '8'"),
    ("lora_alpha", float("nan"), "lora_alpha: expected a finite number; found nan"),
    ("lora_alpha", float("inf"), "lora_alpha: expected a finite number; found inf"),
    ("lora_alpha", 10**400, "lora_alpha: expected a finite number; found 1000"),
    ("lora_alpha", 1e300, r"query', times α/r \(3.33333e\+299\): not finite numbers"),
    ("lora_dropout", 1.5, "lora_dropout: expected a number from 0 on, below 1; found 1.5"),
    ("lora_dropout", "x", "lora_dropout: expected a number from 0 on, below 1; found 'x'"),
    ("target_modules", {"query": 1}, "target_modules: expected a list of .* found {'query': 1}"),
    ("target_modules", [1], r"target_modules: expected a list of .* found \[1\]"),
    ("target_modules", 5, "target_modules: expected a list of .* found 5"),
    ("auto_mapping", "x", "auto_mapping: expected a mapping, or null; found 'x'"),
    ("task_type", ["SEQ_CLS"], "task_type: expected a text, or null; found .'SEQ_CLS'."),
    ("base_model_name_or_path", 5, "base_model_name_or_path: expected a text, or null; found 5"),
    ("use_rslora", "no", "use_rslora: expected true or false; found 'no'"),
    ("use_dora", 1, "use_dora: expected true or false; found 1"),
]


@pytest.fixture
def plain(tmp_path):
    """A folder of PEFT's for BERT's query."""
    saved(tmp_path / "x", tiny("bert"), target_modules=["query"], r=3)
    return tmp_path / "x"


@pytest.mark.parametrize("name", REFUSED_SETTINGS)
def test_settings_that_are_refused(plain, name):
    value, told = REFUSED_SETTINGS[name]
    change_json(plain / "adapter_config.json", **{name: value})
    with pytest.raises(weft.WeftError, match=told):
        load_peft(plain, tiny("bert"), TASK)


@pytest.mark.parametrize(("name", "value", "told"), WRONG_SETTINGS, ids=[one[0] for one in WRONG_SETTINGS])
def test_settings_that_no_peft_has_written(plain, name, value, told):
    change_json(plain / "adapter_config.json", **{name: value})
    with pytest.raises(weft.WeftError, match=told) as wrong:
        load_peft(plain, tiny("bert"), TASK)
    assert str(plain) in str(wrong.value)


@pytest.mark.parametrize("start", ["pissa", "pissa_niter_4", "olora", "corda", "loftq", "lora_ga"])
def test_starts_that_changed_the_encoder_are_refused(plain, start):
    change_json(plain / "adapter_config.json", init_lora_weights=start)
    with pytest.raises(weft.WeftError, match=f"init_lora_weights '{start}'"):
        load_peft(plain, tiny("bert"), TASK)


@pytest.mark.parametrize(
    ("family", "settings", "told"),
    [
        ("bert", {"target_modules": ["word_embeddings"]}, "embedding 'embeddings.word_embeddings'"),
        (
            "electra",
            {"target_modules": ["embeddings_project"]},
            "'embeddings_project', which is not a linear site",
        ),
        ("deberta-v2", {"target_modules": ["pos_key_proj"]}, "pos_key_proj'.*did you mean 'key_proj'"),
        (
            "bert",
            {"target_modules": ["query"], "modules_to_save": ["pooler"]},
            r"'pooler.dense' was saved whole \(modules_to_save\)",
        ),
    ],
)
def test_folders_of_pefts_that_are_refused(tmp_path, family, settings, told):
    saved(tmp_path / "x", tiny(family), **settings)
    with pytest.raises(weft.WeftError, match=told):
        load_peft(tmp_path / "x", tiny(family), TASK)


@pytest.mark.parametrize(
    ("family", "targets", "told"),
    [
        ("modernbert", ["Wqkv"], "classifier of modernbert has a separate hidden layer"),
        ("distilbert", ["q_lin"], "'pre_classifier' was saved whole"),
        ("roberta", ["query"], "classifier.dense.weight is not the encoder's pooler"),
    ],
)
def test_other_classifiers_are_refused(tmp_path, family, targets, told):
    saved(tmp_path / "x", bare_classifier(family, 2), target_modules=targets, task_type="SEQ_CLS")
    with pytest.raises(weft.WeftError, match=told):
        load_peft(tmp_path / "x", tiny(family), TASK)


def test_a_classifier_of_tokens_is_refused(tmp_path):
    saved(tmp_path / "x", bare_classifier("bert", 2), target_modules=["query"], task_type="SEQ_CLS")
    change_json(tmp_path / "x" / "adapter_config.json", task_type="TOKEN_CLS")
    with pytest.raises(weft.WeftError, match="its task_type is 'TOKEN_CLS'"):
        load_peft(tmp_path / "x", tiny("bert"), TASK)


def _cut(tensors):
    key = next(iter(tensors))
    tensors[key] = tensors[key][:1]


def _wide(tensors):
    for key in [key for key in tensors if "lora_A" in key]:
        tensors[key] = torch.zeros(3, 64)


def _half(tensors):
    del tensors[next(key for key in tensors if "lora_B" in key)]


def _none(tensors):
    tensors.clear()


def _odd(tensors):
    tensors["base_model.model.encoder.layer.0.attention.self.query.lora_C"] = torch.zeros(1)


def _nan(tensors):
    next(value for key, value in tensors.items() if "lora_B" in key)[0, 0] = torch.nan


def _whole(tensors):
    tensors["base_model.model.embeddings.word_embeddings.weight"] = torch.zeros(1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_cut, "expected .3, in. and .out, 3., the rank of"),
        (_wide, "this is a different encoder"),
        (_half, "has no lora_B.weight"),
        (_none, "holds no LoRA"),
        (_odd, "is not a LoRA factor"),
        (_nan, f"{WEIGHTS}: base_model.*lora_B.weight: not finite numbers; the model did not train well"),
        (_whole, "'embeddings.word_embeddings' was saved whole"),
    ],
)
def test_tensors_that_do_not_fit(plain, change, told):
    tensors = load_file(plain / WEIGHTS)
    change(tensors)
    save_file(tensors, plain / WEIGHTS)
    with pytest.raises(weft.WeftError, match=told):
        load_peft(plain, tiny("bert"), TASK)


def test_files_that_are_missing_or_broken(plain, tmp_path):
    with pytest.raises(weft.WeftError, match="there is no such folder"):
        load_peft(tmp_path / "nothing", tiny("bert"), TASK)
    (tmp_path / "empty").mkdir()
    with pytest.raises(weft.WeftError, match=r"adapter_config.json is missing"):
        load_peft(tmp_path / "empty", tiny("bert"), TASK)
    weights = (plain / WEIGHTS).read_bytes()
    (plain / WEIGHTS).write_bytes(weights[:50])
    with pytest.raises(weft.WeftError, match="cannot be read as a file of weights"):
        load_peft(plain, tiny("bert"), TASK)
    (plain / WEIGHTS).unlink()
    with pytest.raises(weft.WeftError, match=r"adapter_model.safetensors is missing"):
        load_peft(plain, tiny("bert"), TASK)
    torch.save({"a": 1}, plain / "adapter_model.bin")
    with pytest.raises(weft.WeftError, match="expected tensors by name"):
        load_peft(plain, tiny("bert"), TASK)
    for text, told in (("{", "is not JSON"), ("[]", "expected an object")):
        (plain / "adapter_config.json").write_text(text)
        with pytest.raises(weft.WeftError, match=told):
            load_peft(plain, tiny("bert"), TASK)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 2}, "has format 2; this version of weft reads format 1"),
        ({"task": None}, "weft.json: task: expected a mapping; found None"),
        ({"encoder": "bert"}, "weft.json: encoder: expected a mapping; found 'bert'"),
        ({"encoder": {"name": ["x"]}}, "weft.json: encoder.name: expected a text, or null; found .'x'."),
        ({"max_length": -3}, "weft.json: max_length: expected a whole number of at least 2; found -3"),
        ({"max_length": True}, "max_length: expected a whole number of at least 2; found True"),
        ({"max_length": 0}, "max_length: expected a whole number of at least 2; found 0"),
        ({"max_length": "9"}, "max_length: expected a whole number of at least 2; found '9'"),
        ({"seed": False}, "weft.json: seed: expected a whole number; found False"),
        ({"seed": 1.5}, "weft.json: seed: expected a whole number; found 1.5"),
        ({"pool": "max"}, "weft.json: pool: expected one of pooler, cls, mean; found 'max'"),
        ({"pool": ["cls"]}, "weft.json: pool: expected one of pooler, cls, mean; found .'cls'."),
        ({"task": {"name": "a", "labels": ["x", "y"], "files": 1}}, "weft.json: task: "),
        ({"task": {"name": "a", "labels": ["x", "y"], "colour": "red"}}, "task: .*colour"),
        ({"task": {"name": "a", "labels": ["x", "y", "z"]}}, "its head has 2 outputs; the task 'a' has 3"),
    ],
)
def test_a_damaged_weft_json(tmp_path, change, told):
    folder = export_peft(scramble(build("bert", "lora", SEVERAL)), "a", tmp_path / "x", head="file")
    change_json(folder / "weft.json", **change)
    with pytest.raises(weft.WeftError, match=told):
        load_peft(folder, tiny("bert"))


def test_a_head_that_is_not_finite(tmp_path):
    folder = export_peft(scramble(build("bert", "lora", SEVERAL)), "a", tmp_path / "x", head="file")
    head = load_file(folder / "head.safetensors")
    head["bias"][0] = torch.inf
    save_file(head, folder / "head.safetensors")
    with pytest.raises(weft.WeftError, match=r"head.safetensors: bias: not finite numbers"):
        load_peft(folder, tiny("bert"))


def test_another_encoder_than_the_exported_one_is_refused(tmp_path):
    folder = export_peft(scramble(build("bert", "lora", SEVERAL)), "a", tmp_path / "x")
    other = tiny("bert")
    other.embeddings.word_embeddings.weight.data[7] += 1
    with pytest.raises(weft.WeftError, match="is not the one that"):
        load_peft(folder, other)


HEADS = {
    "layers": {"layers": 2},
    "pool": {"pool": "cls"},
    "task_pooler": {"pool": "task_pooler"},
    "apart": {"texts": ("a", "b"), "apart": True},
    "cosine": {"kind": "similarity", "texts": ("a", "b")},
    "marked": {"kind": "marked", "texts": ("a", "b"), "marks": MARKS},
}


@pytest.mark.parametrize("form", HEADS)
def test_a_head_that_peft_has_no_place_for(form, tmp_path):
    given = HEADS[form]
    size = {} if form == "cosine" else {"size": 2}
    model = build("bert", "lora", [weft.Task("x", **size, **given)], pool="pooler")
    with pytest.raises(weft.WeftError, match="task 'x' cannot be exported to PEFT: its head"):
        export_peft(model, "x", tmp_path / "out")
    assert not (tmp_path / "out").exists()
