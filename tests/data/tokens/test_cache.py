import itertools
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.support.counting_tokenizer import (
    PAIRS,
    SINGLE,
    Counting,
    assert_same_as_the_tokenizer,
    entries,
    split_of,
)
from tests.support.forked import Forked
from weft.data import tokenize
from weft.data.tokens import cache as caching
from weft.data.tokens import encode as encoding
from weft.data.tokens import npy_pieces


def test_where_the_cache_is(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "variable"))
    tokenize(split_of(SINGLE), tokenizer, 16)
    assert len(entries(tmp_path / "variable")) == 1
    tokenize(split_of(SINGLE), tokenizer, 16, tmp_path / "argument")
    assert len(entries(tmp_path / "argument")) == 1


@pytest.mark.usefixtures("counted_copies")
def test_a_stop_while_tokenising_leaves_nothing(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "CHUNK", 2)
    tokenizer.backend_tokenizer.no_truncation()  # what other tests left there
    with pytest.raises(KeyboardInterrupt):
        tokenize(split_of(SINGLE), Counting(tokenizer, fail_at=3), 64, tmp_path)
    assert entries(tmp_path) == []
    assert tokenizer.backend_tokenizer.truncation is None


@pytest.mark.parametrize("at", [1, 2, 7])
def test_a_stop_while_writing_leaves_nothing(tokenizer, tmp_path, monkeypatch, at):
    calls, write = [], npy_pieces._write_header

    def stops(file, kind, size):
        calls.append(file)
        if len(calls) == at:  # of a new file, or of one that is complete
            raise KeyboardInterrupt
        write(file, kind, size)

    monkeypatch.setattr(npy_pieces, "_write_header", stops)
    with pytest.raises(KeyboardInterrupt):
        tokenize(split_of(SINGLE), tokenizer, 64, tmp_path)
    monkeypatch.undo()
    assert entries(tmp_path) == []
    assert_same_as_the_tokenizer(tokenize(split_of(SINGLE), tokenizer, 64, tmp_path), SINGLE, tokenizer, 64)


ENTRY = """
import os, signal, sys
from mmap import mmap
from pathlib import Path
import numpy as np
from weft.data.tokens import cache
arrays = dict(ids=np.arange(9), offsets=np.array([0, 4, 9]), full_lengths=np.array([4, 5]))
"""


def test_a_kill_leaves_no_entry_and_is_swept_up(tmp_path, monkeypatch):
    script = ENTRY + "cache._move = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    script += "cache.write_entry(Path(sys.argv[1]), 'key', arrays, {})"
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert caching.open_entry(tmp_path, "key") is None
    assert [p.name.startswith(".key.weft-") for p in (tmp_path / "tokens").iterdir()] == [True]
    (tmp_path / "tokens" / ".writing-abc").mkdir()  # left by an earlier version
    arrays = {"ids": np.arange(9), "offsets": np.array([0, 4, 9]), "full_lengths": np.array([4, 5])}
    caching.write_entry(tmp_path, "another", arrays, {})
    assert sorted(p.name for p in (tmp_path / "tokens").iterdir()) == [".writing-abc", "another"]
    monkeypatch.setattr(caching, "_ABANDONED", -1.0)
    caching.write_entry(tmp_path, "other", arrays, {})
    assert sorted(p.name for p in (tmp_path / "tokens").iterdir()) == ["another", "other"]


ONCE = """
import sys, time
from pathlib import Path
from weft.data.tokens import cache
with cache.written_once(Path(sys.argv[1]), "key"):
    print(time.monotonic(), flush=True)
    time.sleep(0.3)
    print(time.monotonic(), flush=True)
"""


def test_of_processes_that_need_the_same_entry_one_is_inside(tmp_path):
    command = [sys.executable, "-c", ONCE, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    spans = sorted(tuple(map(float, process.communicate()[0].split())) for process in running)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    assert list((tmp_path / "tokens").iterdir()) == []


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    script = ONCE.replace("time.sleep(0.3)", "import os; os.kill(os.getpid(), 9)")
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, capture_output=True)
    (left,) = (tmp_path / "tokens").iterdir()
    with caching.written_once(tmp_path, "key"):
        assert left.exists()
    assert not left.exists()


def test_processes_that_write_the_same_at_once(tmp_path):
    arrays = {"ids": np.arange(9), "offsets": np.array([0, 4, 9]), "full_lengths": np.array([4, 5])}

    def write():
        for i in range(100):
            caching.write_entry(tmp_path, str(i), arrays, {})
            assert caching.open_entry(tmp_path, str(i))["ids"].tolist() == list(range(9))

    # most entries are there already, and damaged: each must be replaced once, and never a sound one
    for i in range(75):
        (tmp_path / "tokens" / str(i)).mkdir(parents=True)
        (tmp_path / "tokens" / str(i) / "meta.json").write_text("{")
    running = [Forked(write) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert sorted(int(p.name) for p in (tmp_path / "tokens").iterdir()) == list(range(100))


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


def piped(name):
    def damage(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    damage.__name__ = f"piped {name}"
    return damage


def flipped(name, at):
    def damage(folder):
        data = bytearray((folder / name).read_bytes())
        data[at] ^= 4
        (folder / name).write_bytes(bytes(data))

    damage.__name__ = f"flipped {name} {at}"
    return damage


def as_written_before(folder, **changes):
    """An entry of a version that recorded no checksums."""
    meta = json.loads((folder / "meta.json").read_text())
    for key in ("checksums", "sha256"):
        meta.pop(key)
    (folder / "meta.json").write_text(json.dumps(meta))
    for name, change in changes.items():
        np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))


def swapped_offsets(folder):
    """Rows that begin before the ones in front of them, in an entry without checksums."""
    as_written_before(folder, offsets=lambda x: np.concatenate([x[:1], x[2:0:-1], x[3:]]))


def test_an_entry_without_checksums_is_read(tokenizer, tmp_path):
    split = split_of(PAIRS)
    tokenize(split, tokenizer, 256, tmp_path)
    (entry,) = entries(tmp_path)
    as_written_before(entry)
    identity = entry.stat().st_ino
    assert_same_as_the_tokenizer(tokenize(split, tokenizer, 256, tmp_path), PAIRS, tokenizer, 256)
    assert entry.stat().st_ino == identity


@pytest.mark.parametrize(
    "damage",
    [
        *(
            flipped(f"{name}.npy", at)
            for name in ("ids", "types", "offsets", "full_lengths")
            for at in (20, -1)
        ),
        flipped("meta.json", 5),
        flipped("meta.json", -8),
        swapped_offsets,
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
        piped("ids.npy"),
        piped("meta.json"),
    ],
)
@pytest.mark.usefixtures("counted_copies")
def test_a_damaged_entry_is_built_again(tokenizer, tmp_path, damage):
    counting = Counting(tokenizer)
    split = split_of(PAIRS)
    tokenize(split, counting, 256, tmp_path)
    damage(entries(tmp_path)[0])
    found = tokenize(split, counting, 256, tmp_path)
    assert counting.rows == 2 * len(PAIRS)
    assert_same_as_the_tokenizer(found, PAIRS, tokenizer, 256)
    assert len(entries(tmp_path)) == 1
