import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data import cache as caching
from weft.data import load_split, tokenise
from weft.data import tokens as tokenising
from weft.errors import WeftError
from weft.tasks import Task

SINGLE = ["It rains.", "né ☂ 雨 [SEP] [PAD]", "word " * 40, "x", "antidisestablishmentarianism " * 9]
PAIRS = [(a, b) for a in SINGLE for b in SINGLE]


def split_of(texts, labels=None):
    texts = [(t,) if isinstance(t, str) else t for t in texts]
    names = tuple("ab"[: len(texts[0])])
    labels = [0] * len(texts) if labels is None else labels
    rows = [{**dict(zip(names, t, strict=True)), "label": y} for t, y in zip(texts, labels, strict=True)]
    return load_split(Task("x", size=2, texts=names, files={"train": rows}), "train")


class Counting:
    """A tokenizer that counts the rows it is given, and may fail at some row."""

    def __init__(self, tokenizer, fail_at=None):
        self.inner, self.rows, self.fail_at = tokenizer, 0, fail_at
        self.backend_tokenizer = self

    def __getattr__(self, name):
        inner = self.inner
        return getattr(inner if hasattr(inner, name) else inner.backend_tokenizer, name)

    def encode_batch_fast(self, batch):
        self.rows += len(batch)
        if self.fail_at is not None and self.rows >= self.fail_at:
            raise KeyboardInterrupt
        return self.inner.backend_tokenizer.encode_batch_fast(batch)


def entries(folder):
    return sorted((Path(folder) / "tokens").glob("*")) + sorted((Path(folder) / "tokens").glob(".*"))


def same_as_the_tokenizer(found, texts, tokenizer, max_length):
    columns = [list(c) for c in zip(*((t,) if isinstance(t, str) else t for t in texts), strict=True)]
    expected = tokenizer(*columns, truncation="longest_first", max_length=max_length)
    full = tokenizer(*columns, truncation=False, verbose=False)["input_ids"]
    assert len(found) == len(texts)
    for i in range(len(found)):
        assert found.ids(i).tolist() == expected["input_ids"][i]
        types = found.types(i)
        assert (np.zeros(found.lengths[i]) if types is None else types).tolist() == expected[
            "token_type_ids"
        ][i]
    assert found.lengths.tolist() == list(map(len, expected["input_ids"]))
    assert found.full_lengths.tolist() == list(map(len, full))


@pytest.mark.parametrize("max_length", [4, 5, 16, 33, 128])
@pytest.mark.parametrize("texts", [SINGLE, PAIRS], ids=["single", "pairs"])
@pytest.mark.parametrize("chunk", [2, 4096])
def test_the_tokenizer_itself_says_the_same(tokenizer, tmp_path, monkeypatch, texts, max_length, chunk):
    monkeypatch.setattr(tokenising, "CHUNK", chunk)
    found = tokenise(split_of(texts), tokenizer, max_length, tmp_path)
    same_as_the_tokenizer(found, texts, tokenizer, max_length)
    assert found.has_types == (texts is PAIRS)


printable = st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(lambda t: t.strip())


@settings(max_examples=25)
@given(st.lists(st.tuples(printable, printable), min_size=1, max_size=5), st.integers(4, 40))
def test_any_text(tokenizer, tmp_path_factory, pairs, max_length):
    folder = tmp_path_factory.mktemp("cache")
    same_as_the_tokenizer(
        tokenise(split_of(pairs), tokenizer, max_length, folder), pairs, tokenizer, max_length
    )


def test_it_is_mapped_and_cannot_be_written(tokenizer, tmp_path):
    found = tokenise(split_of(PAIRS), tokenizer, 32, tmp_path)
    assert isinstance(found.ids(0).base, np.memmap)
    assert not found.ids(0).flags.writeable
    assert found.ids(0).dtype == np.int32
    assert found.types(0).dtype == np.int8
    assert found.labels == [0] * len(PAIRS)


def test_it_is_tokenised_once(tokenizer, tmp_path):
    counting = Counting(tokenizer)
    first = tokenise(split_of(SINGLE), counting, 64, tmp_path)
    assert counting.rows == len(SINGLE)
    again = tokenise(split_of(SINGLE), counting, 64, tmp_path)
    assert counting.rows == len(SINGLE)
    assert again.key == first.key
    assert all((again.ids(i) == first.ids(i)).all() for i in range(len(first)))
    assert len(entries(tmp_path)) == 1


def test_only_long_rows_are_tokenised_again(tokenizer, tmp_path):
    counting = Counting(tokenizer)
    tokenise(split_of(SINGLE), counting, 32, tmp_path)
    assert counting.rows == len(SINGLE) + 2


def test_whatever_matters_makes_another_entry(tokenizer, tmp_path):
    def other():
        from tokenizers import normalizers

        backend = type(tokenizer.backend_tokenizer).from_str(tokenizer.backend_tokenizer.to_str())
        backend.normalizer = normalizers.Lowercase()
        changed = Counting(tokenizer)
        changed.to_str = backend.to_str
        return changed

    keys = [
        tokenise(split, tok, max_length, tmp_path).key
        for split, tok, max_length in [
            (split_of(SINGLE), tokenizer, 16),
            (split_of(SINGLE), tokenizer, 17),
            (split_of(SINGLE), other(), 16),
            (split_of(SINGLE[::-1]), tokenizer, 16),
            (split_of([*SINGLE[:-1], SINGLE[-1] + "."]), tokenizer, 16),
            (split_of(SINGLE, [0, 0, 0, 0, 1]), tokenizer, 16),
            (split_of(["ab", "c"]), tokenizer, 16),
            (split_of(["a", "bc"]), tokenizer, 16),
        ]
    ]
    assert len(set(keys)) == len(keys) == len(entries(tmp_path))


def test_what_the_tokenizer_was_last_used_for_does_not_matter(tokenizer, tmp_path):
    backend = tokenizer.backend_tokenizer
    split = split_of(PAIRS)
    first = tokenise(split, tokenizer, 16, tmp_path)
    backend.enable_truncation(7, strategy="only_first")
    backend.enable_padding(length=20)
    before = (backend.truncation, backend.padding)
    try:
        again = tokenise(split, tokenizer, 16, tmp_path / "other")
        assert (backend.truncation, backend.padding) == before
    finally:
        backend.no_truncation()
        backend.no_padding()
    assert again.key == first.key
    assert again.lengths.tolist() == first.lengths.tolist()


def test_where_the_cache_is(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "variable"))
    tokenise(split_of(SINGLE), tokenizer, 16)
    assert len(entries(tmp_path / "variable")) == 1
    tokenise(split_of(SINGLE), tokenizer, 16, tmp_path / "argument")
    assert len(entries(tmp_path / "argument")) == 1
    monkeypatch.delenv("WEFT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert caching.cache_folder() == tmp_path / ".cache" / "weft"


def test_progress(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenising, "CHUNK", 2)
    calls = []
    for _ in range(2):
        tokenise(split_of(SINGLE), tokenizer, 16, tmp_path, progress=lambda *call: calls.append(call))
    assert calls == [(2, 5), (4, 5), (5, 5)]


def test_a_stop_while_tokenising_leaves_nothing(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenising, "CHUNK", 2)
    with pytest.raises(KeyboardInterrupt):
        tokenise(split_of(SINGLE), Counting(tokenizer, fail_at=3), 64, tmp_path)
    assert entries(tmp_path) == []
    assert tokenizer.backend_tokenizer.truncation is None


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_stop_while_writing_leaves_nothing(tokenizer, tmp_path, monkeypatch, at):
    calls, save = [], np.save

    def stops(path, array):
        calls.append(path)
        if len(calls) == at:
            raise KeyboardInterrupt
        save(path, array)

    monkeypatch.setattr(np, "save", stops)
    with pytest.raises(KeyboardInterrupt):
        tokenise(split_of(SINGLE), tokenizer, 64, tmp_path)
    monkeypatch.undo()
    assert entries(tmp_path) == []
    same_as_the_tokenizer(tokenise(split_of(SINGLE), tokenizer, 64, tmp_path), SINGLE, tokenizer, 64)


ENTRY = """
import os, signal, sys
from pathlib import Path
import numpy as np
from weft.data import cache
arrays = dict(ids=np.arange(9), offsets=np.array([0, 4, 9]), full_lengths=np.array([4, 5]))
"""


def test_a_kill_leaves_no_entry_and_is_swept_up(tmp_path, monkeypatch):
    script = ENTRY + "cache._move = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    script += "cache.write_entry(Path(sys.argv[1]), 'key', arrays, {})"
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert caching.open_entry(tmp_path, "key") is None
    assert [p.name.startswith(".writing-") for p in (tmp_path / "tokens").iterdir()] == [True]
    arrays = {"ids": np.arange(9), "offsets": np.array([0, 4, 9]), "full_lengths": np.array([4, 5])}
    caching.write_entry(tmp_path, "key", arrays, {})
    assert len(list((tmp_path / "tokens").iterdir())) == 2
    monkeypatch.setattr(caching, "_ABANDONED", -1.0)
    caching.write_entry(tmp_path, "other", arrays, {})
    assert sorted(p.name for p in (tmp_path / "tokens").iterdir()) == ["key", "other"]


def test_processes_that_write_the_same_at_once(tmp_path):
    script = ENTRY + "for i in range(200):\n"
    script += "    cache.write_entry(Path(sys.argv[1]), str(i), arrays, {})\n"
    script += "    assert cache.open_entry(Path(sys.argv[1]), str(i))['ids'].tolist() == list(range(9))\n"
    # some entries are there already, and damaged
    for i in range(0, 200, 3):
        (tmp_path / "tokens" / str(i)).mkdir(parents=True)
        (tmp_path / "tokens" / str(i) / "meta.json").write_text("{")
    command = [sys.executable, "-c", script, str(tmp_path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[1] for process in running] == [""] * 3
    assert sorted(int(p.name) for p in (tmp_path / "tokens").iterdir()) == list(range(200))


def cut(folder):
    data = (folder / "ids.npy").read_bytes()
    (folder / "ids.npy").write_bytes(data[:-4])


def shorter(folder):
    np.save(folder / "full_lengths.npy", np.load(folder / "full_lengths.npy")[:-1])


def other_dtype(folder):
    np.save(folder / "ids.npy", np.load(folder / "ids.npy").astype(np.int64))


def other_end(folder):
    offsets = np.load(folder / "offsets.npy")
    offsets[-1] -= 1
    np.save(folder / "offsets.npy", offsets)


def other_format(folder):
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, "format": -1}))


def without_types(folder):
    (folder / "types.npy").unlink()


def without_meta(folder):
    (folder / "meta.json").unlink()


def broken_meta(folder):
    (folder / "meta.json").write_text("[1, 2")


def list_meta(folder):
    (folder / "meta.json").write_text("[1, 2]")


def empty_ids(folder):
    (folder / "ids.npy").write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        shorter,
        other_dtype,
        other_end,
        other_format,
        without_types,
        without_meta,
        broken_meta,
        list_meta,
        empty_ids,
    ],
)
def test_a_damaged_entry_is_built_again(tokenizer, tmp_path, damage):
    counting = Counting(tokenizer)
    split = split_of(PAIRS)
    tokenise(split, counting, 256, tmp_path)
    damage(entries(tmp_path)[0])
    found = tokenise(split, counting, 256, tmp_path)
    assert counting.rows == 2 * len(PAIRS)
    same_as_the_tokenizer(found, PAIRS, tokenizer, 256)
    assert len(entries(tmp_path)) == 1


def test_a_tokenizer_whose_model_wants_no_types(tokenizer, tmp_path):
    plain = Counting(tokenizer)
    plain.model_input_names = ["input_ids", "attention_mask"]
    found = tokenise(split_of(PAIRS), plain, 16, tmp_path)
    assert not found.has_types
    assert found.types(0) is None
    assert found.key != tokenise(split_of(PAIRS), tokenizer, 16, tmp_path).key


def test_what_cannot_be(tokenizer, tmp_path):
    with pytest.raises(WeftError, match="max_length 2 leaves no room for text beside 2 special tokens"):
        tokenise(split_of(SINGLE), tokenizer, 2, tmp_path)
    with pytest.raises(WeftError, match="max_length 3 leaves no room for text beside 3 special tokens"):
        tokenise(split_of(PAIRS), tokenizer, 3, tmp_path)
    with pytest.raises(WeftError, match="object is no fast tokenizer"):
        tokenise(split_of(SINGLE), object(), 16, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(WeftError, match=r"the token cache .* cannot be written: .*; give another folder"):
        tokenise(split_of(SINGLE), tokenizer, 16, tmp_path / "file")
