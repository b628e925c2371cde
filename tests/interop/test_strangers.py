"""Checkpoints of strangers: every importer reads them without running code, and checks sizes first."""

from __future__ import annotations

import json
import os

import pytest
import torch

from tests.support.ca_mtl_reference import draw
from tests.support.golden import read_golden
from tests.support.peft_twin import TASK, change_json, saved
from tests.support.planted import plant_code, plant_pickle, plant_tokenizer, trace_of
from tests.support.tiny import tiny
from tests.support.tiny_run import save_encoder
from weft.errors import WeftError
from weft.interop import load_bert_n_pals, load_ca_mtl
from weft.interop.foreign_inputs import read_config
from weft.interop.peft.import_ import load_peft
from weft.interop.peft.patterns import PatternError, module_pattern

pytestmark = pytest.mark.filterwarnings("ignore:.* has no head for the task")

CA_MTL = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 30,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "max_seq_length": 12,
    "layer_norm_eps": 1e-12,
}


@pytest.fixture
def trace(tmp_path, monkeypatch):
    return trace_of(tmp_path, monkeypatch)


@pytest.fixture
def peft(tmp_path):
    """A folder of PEFT's for BERT's query."""
    saved(tmp_path / "peft", tiny("bert"), target_modules=["query"], r=3)
    return tmp_path / "peft"


def pals():
    """A state dict of the authors, its configuration and its numbers of labels."""
    facts, part = read_golden("bert_n_pals", "model_pals")
    return part("param."), facts["config"], facts["num_labels"]


def importers():
    """The importers of state dicts, by name: a state and a tokenizer are passed to each."""
    ca_mtl = draw(CA_MTL, [2, 3], large=False)
    state, config, labels = pals()
    return {
        "bert_n_pals": (state, lambda state, **more: load_bert_n_pals(state, config, labels, **more)),
        "ca_mtl": (ca_mtl, lambda state, **more: load_ca_mtl(state, CA_MTL, ["a", "b"], **more)),
    }


@pytest.mark.parametrize("importer", ["bert_n_pals", "ca_mtl"])
@pytest.mark.parametrize("plain", [True, False])
def test_code_in_a_state_dict_does_not_run(tmp_path, trace, importer, plain):
    state, load = importers()[importer]
    load(state)  # without the code it is fine
    with pytest.raises(WeftError, match=r"state\.bin.*weft runs no code of a file"):
        load(plant_pickle(tmp_path / "state.bin", trace, state, plain))
    trace.assert_clean()


@pytest.mark.parametrize("importer", ["bert_n_pals", "ca_mtl"])
def test_code_in_a_tokenizer_does_not_run(tmp_path, trace, importer):
    state, load = importers()[importer]
    folder = save_encoder(tmp_path / "tokenizer")
    assert load(state, tokenizer=folder).tokenizer.encode("a cat")
    (folder / "config.json").unlink()
    plant_tokenizer(folder, trace)
    with pytest.raises(WeftError, match="weft does not run it"):
        load(state, tokenizer=folder)
    trace.assert_clean()


@pytest.mark.parametrize("key", ["num_hidden_layers", "vocab_size", "hidden_size_aug", "intermediate_size"])
def test_absurd_sizes_of_bert_n_pals(key):
    state, config, labels = pals()
    with pytest.raises(WeftError, match=r"layers|describes an encoder of|found \d+; the state dict has only"):
        load_bert_n_pals(state, {**config, key: 12 * 10**8}, labels)


@pytest.mark.parametrize("key", ["num_hidden_layers", "vocab_size", "intermediate_size"])
def test_absurd_sizes_of_ca_mtl(key):
    with pytest.raises(WeftError, match=r"layers|describes an encoder of"):
        load_ca_mtl(draw(CA_MTL, [2, 3], large=False), {**CA_MTL, key: 10**9}, ["a", "b"])


def test_a_configuration_that_is_nested_without_end(tmp_path):
    (tmp_path / "config.json").write_text("[" * 50_000)
    with pytest.raises(WeftError, match="cannot be read as JSON: it is nested"):
        read_config(tmp_path / "config.json")


def test_code_in_a_peft_folder_does_not_run(peft, trace):
    tensors = load_peft(peft, tiny("bert"), TASK).state_dict()
    (peft / "adapter_model.safetensors").unlink()
    plant_pickle(peft / "adapter_model.bin", trace, tensors)
    with pytest.raises(WeftError, match=r"adapter_model\.bin.*weft runs no code of a file"):
        load_peft(peft, tiny("bert"), TASK)
    trace.assert_clean()


@pytest.mark.parametrize("named", ["by the folder", "by the user"])
def test_code_in_the_encoder_that_a_peft_folder_names(peft, tmp_path, trace, named):
    encoder = plant_code(save_encoder(tmp_path / "encoder"), trace)
    change_json(peft / "adapter_config.json", base_model_name_or_path=str(encoder))
    with pytest.raises(WeftError, match="which weft does not run"):
        load_peft(peft, None if named == "by the folder" else encoder, TASK)
    trace.assert_clean()


@pytest.mark.parametrize(
    "name", ["adapter_config.json", "adapter_model.safetensors", "weft.json", "README.md"]
)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_and_pipes_in_a_peft_folder(peft, tmp_path, name, kind):
    (peft / name).unlink(missing_ok=True)
    (tmp_path / "secret").write_text("key")
    if kind == "link":
        (peft / name).symlink_to(tmp_path / "secret")
    else:
        os.mkfifo(peft / name)
    with pytest.raises(WeftError, match=rf"{name} is a (link|named pipe)"):
        load_peft(peft, tiny("bert"), TASK)


@pytest.mark.parametrize("key", ["rank_pattern", "alpha_pattern"])
@pytest.mark.parametrize("pattern", ["(.*)*x", "(q|q)*z", "((.+)+)+!", "(a|a)" * 40 + "b"])
def test_patterns_that_take_python_years(peft, key, pattern):
    change_json(peft / "adapter_config.json", **{key: {pattern: 7}})
    model = load_peft(peft, tiny("bert"), TASK)  # no module matches: the default
    assert {part.rank for part in model.method.parts} == {3}


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "a{99999}", "x" * 2000])
def test_patterns_that_are_refused(peft, pattern):
    change_json(peft / "adapter_config.json", rank_pattern={pattern: 3})
    with pytest.raises(WeftError, match=r"rank_pattern: .* is not a valid pattern: "):
        load_peft(peft, tiny("bert"), TASK)


@pytest.mark.parametrize("contents", ["[" * 50_000, '{"a":' * 200 + "1" + "}" * 200])
def test_deep_json_in_a_peft_folder(peft, contents):
    (peft / "adapter_config.json").write_text(contents)
    with pytest.raises(WeftError, match=r"adapter_config\.json is not JSON: it is nested"):
        load_peft(peft, tiny("bert"), TASK)


def test_a_tensor_with_an_endless_name(peft):
    from safetensors.torch import load_file, save_file

    weights = load_file(peft / "adapter_model.safetensors")
    save_file(
        {**weights, "x" * 5000 + ".lora_A.weight": torch.ones(3, 3)}, peft / "adapter_model.safetensors"
    )
    with pytest.raises(WeftError, match="a tensor's name is not the path of a module"):
        load_peft(peft, tiny("bert"), TASK)


@pytest.mark.parametrize(
    ("key", "matches", "not_these"),
    [
        ("query", ["query", "a.query", "encoder.layer.0.attention.self.query"], ["a.xquery", "query.b"]),
        ("self.query", ["a.self.query", "a.selfxquery"], ["a.self.key"]),
        ("^query", ["query"], ["a.query"]),
        (r"layer\.(0|1)\.x", ["layer.0.x", "a.layer.1.x"], ["layer.2.x", "layerx0.x"]),
        (r"layer\.[0-5]\..*query", ["layer.3.attention.query"], ["layer.7.attention.query"]),
        ("", ["", "a."], ["a"]),
    ],
)
def test_keys_match_as_in_peft(key, matches, not_these):
    from peft.utils.other import get_pattern_key

    for path in [*matches, *not_these]:
        expected = path in matches
        assert module_pattern(key)(path) is expected
        # PEFT returns the path itself if no key matches
        assert (get_pattern_key([key], path) == key) == (expected or key == path)


def test_a_key_that_is_no_pattern():
    with pytest.raises(PatternError, match="missing"):
        module_pattern("(")


def test_the_weft_json_of_an_export_may_not_be_absurd(peft):
    (peft / "weft.json").write_text(
        json.dumps({"format": 1, "task": {}, "encoder": {}, "seed": 0, "pool": "mean"})
    )
    with pytest.raises(WeftError, match="max_length: expected a whole number"):
        load_peft(peft, tiny("bert"), TASK)
