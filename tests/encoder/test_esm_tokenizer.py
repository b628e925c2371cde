"""The fast tokenizer of ESM gives what Hugging Face's slow one gives."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import EsmTokenizer

import weft
from tests.support.tiny import tiny
from tests.support.tiny_run import rows_of
from weft.encoder.esm_tokenizer import fast_esm
from weft.encoder.load import load_tokenizer

TOKENS = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny encoder with the vocabulary of ESM-2, as the hub has it."""
    folder = tmp_path_factory.mktemp("esm")
    tiny("esm").save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(TOKENS))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "EsmTokenizer"}))
    return folder


@pytest.fixture(scope="module")
def both(folder):
    slow = EsmTokenizer(str(folder / "vocab.txt"))
    return slow, fast_esm(slow)


proteins = st.text("LAGVSERTIDPKXBUZO.- \t", max_size=40)
odd = st.lists(st.sampled_from([*TOKENS, " ", "a", "é", "1", "<", "mask>", "\n"]), max_size=12).map("".join)


@given(first=proteins | odd, second=st.none() | (proteins | odd).filter(bool))
def test_it_gives_the_same_tokens(both, first, second):
    slow, fast = both
    texts = (first,) if second is None else (first, second)
    assert fast(*texts)["input_ids"] == slow(*texts)["input_ids"]


def test_special_tokens_are_the_same(both):
    slow, fast = both
    for name in ("pad", "cls", "eos", "unk", "mask"):
        assert getattr(fast, f"{name}_token_id") == getattr(slow, f"{name}_token_id")
    assert len(fast.get_vocab()) == len(slow.get_vocab()) == 33


def test_it_is_what_an_encoder_of_this_family_loads_and_trains_with(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    assert load_tokenizer(folder).is_fast
    rows = {
        split: [
            {**row, "text": "MKTV" if row["label"] == "yes" else "GGSP"} for row in rows_of("cat", 12, seed)
        ]
        for seed, split in enumerate(("train", "validation"))
    }
    tasks = [weft.Task("cat", labels=("no", "yes"), files=rows)]
    model = weft.Model(folder, tasks, "lora", max_length=24)
    weft.train(model, weft.Training(steps=3, batch_size=4, max_length=24), out=tmp_path / "run")
    answers = weft.load(tmp_path / "run").predict([("cat", "MKTVQ"), ("cat", "GGSPX")])
    assert {answer["label"] for answer in answers} <= {"no", "yes"}
