"""Real worker processes: one is killed, the command is killed and repeated, and Ctrl-C ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.corpora import lines_of, write_bundle, write_corpus
from tests.support.paths import ROOT
from weft.cli import run
from weft.utils.temporary import is_leftover_name

ROWS, FILES = 2500, 20
"""Enough that a busy machine sees the first files long before the last one is finished."""


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "weft", "predict", "bundle", "in/*.jsonl", "--id", "n", "--out", "out"]
    return subprocess.Popen(
        [*command, "--workers", "2", "--device", "cpu", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(child) for child in children if b"weft.corpora.worker" in _command(child)]


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def wait_for(condition, process, seconds=240):
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_every_row_once_after_kills_of_a_worker_and_of_the_command(tmp_path):
    write_bundle(tmp_path)
    files = write_corpus(tmp_path / "in", {f"{at:02}.jsonl": ROWS for at in range(FILES)})
    out = tmp_path / "out"

    def done():
        return list(out.glob("*.jsonl"))

    first = start(tmp_path)
    wait_for(lambda: len(done()) >= 1 and len(workers_of(first)) == 2, first)
    killed = workers_of(first)[0]
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: len(done()) >= 3 and killed not in workers_of(first), first)
    children = workers_of(first)
    first.kill()
    first.wait()
    until = time.monotonic() + 60
    while any(b"weft.corpora.worker" in _command(str(child)) for child in children):
        assert time.monotonic() < until, "workers end when their command is killed"
        time.sleep(0.05)
    before = {file.name: file.stat().st_mtime_ns for file in done()}
    assert 3 <= len(before) < FILES

    second = start(tmp_path)
    wait_for(lambda: len(done()) > len(before), second)
    second.send_signal(signal.SIGINT)
    told = second.communicate(timeout=60)[1]
    assert (second.returncode, "to continue, repeat the command" in told) == (130, True), told
    assert told.count("stopped") == 1
    assert not [file.name for file in out.iterdir() if is_leftover_name(file.name)]

    third = start(tmp_path)
    told = third.communicate(timeout=240)[1]
    assert third.returncode == 0, told
    assert f"of {FILES} files are finished: skipping them" in told
    assert all((out / name).stat().st_mtime_ns == when for name, when in before.items())
    found = [row for file in sorted(done()) for row in lines_of(file)]
    assert [row["id"] for row in found] == list(range(ROWS * FILES))
    single = tmp_path / "single.jsonl"
    for file in files[::3]:
        assert run(["predict", str(tmp_path / "bundle"), str(file), "--id", "n", "--out", str(single)]) == 0
        answers = lines_of(out / file.name)
        for answer, expected in zip(answers, lines_of(single), strict=True):
            near = abs(answer["probabilities"]["yes"] - expected["probabilities"]["yes"])
            assert answer["id"] == expected["id"]
            assert near <= 2e-4


@pytest.mark.slow
def test_two_processes(tmp_path):
    write_bundle(tmp_path)
    write_corpus(tmp_path / "in", {"a.jsonl": 5, "b.jsonl": 3})
    process = start(tmp_path)
    told = process.communicate(timeout=240)[1]
    assert process.returncode == 0, told
    assert "8 rows of 2 files are predicted: out" in told
    assert [row["id"] for name in "ab" for row in lines_of(tmp_path / f"out/{name}.jsonl")] == list(range(8))
