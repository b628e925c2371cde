"""Weights & Biases, offline: the run's own file holds the numbers of the log."""

from __future__ import annotations

import json
import struct
import time

import pytest

from tests.support.tiny_run import breaking_off, metrics_of, write_run
from weft import cli

wandb = pytest.importorskip("wandb")
pytestmark = pytest.mark.usefixtures("token_cache")

OFFLINE = [{"use": "wandb", "project": "looms", "mode": "offline", "tags": ["a"]}]
BLOCK, HEADER, START = 32768, 7, 7
WHOLE, LAST = 1, 4


def records(file):
    """The records of an offline run: LevelDB's log format, after a header, with protocol buffers in it."""
    from wandb.proto import wandb_internal_pb2

    data, place, parts = file.read_bytes(), START, []
    while place + HEADER <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER:
            place += left
            continue
        length, kind = struct.unpack("<HB", data[place + 4 : place + HEADER])
        parts.append(data[place + HEADER : place + HEADER + length])
        place += HEADER + length
        if kind in (WHOLE, LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(b"".join(parts))
            parts = []
            yield record


def written(file):
    """The records of a run that has ended. W&B's own process may write them after `finish` has returned."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = list(records(file))
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{file} has no end")


def history(file):
    """The rows of the history, and the record of the run."""
    rows, begun = [], None
    for record in written(file):
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({x.key or "/".join(x.nested_key): json.loads(x.value_json) for x in items})
        elif record.WhichOneof("record_type") == "run":
            begun = record.run
    return rows, begun


@pytest.fixture
def run_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # no login of whoever runs this
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    return write_run(tmp_path, baselines=False)


def train(file, out, trackers, *words):
    return cli.run(
        ["train", str(file), f"train.trackers={json.dumps(trackers)}", "--out", str(out), "--quiet", *words]
    )


def test_an_offline_run_holds_the_log_and_the_settings(run_file, tmp_path):
    out = tmp_path / "out"
    assert train(run_file, out, OFFLINE) == 0
    (file,) = out.glob("wandb/offline-run-*/run-*.wandb")
    rows, begun = history(file)
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    expected = [(x["step"], x["loss"]) for x in lines if x["event"] == "step"]
    found = [row for row in rows if "step/lr" in row]
    assert [row["weft_step"] for row in found] == [step for step, _ in expected]
    for row, (_, losses) in zip(found, expected, strict=True):
        assert {k: v for k, v in row.items() if k.startswith("step/loss/")} == {
            f"step/loss/{name}": pytest.approx(loss) for name, loss in losses.items()
        }
    (last,) = (row for row in rows if "end/average" in row)
    assert last["end/average"] == pytest.approx(metrics_of(out)["average"])
    assert (begun.project, begun.display_name, list(begun.tags)) == ("looms", "out", ["a"])
    config = {x.key: json.loads(x.value_json) for x in begun.config.update}
    assert config["method"]["use"] == "lora"
    assert config["train"]["steps"] == 20


def test_a_resumed_run_keeps_its_id(run_file, tmp_path):
    out = tmp_path / "out"
    with breaking_off(11):
        assert train(run_file, out, OFFLINE) == 130
    assert train(run_file, out, OFFLINE, "--resume") == 0
    runs = [history(file)[1].run_id for file in out.glob("wandb/offline-run-*/run-*.wandb")]
    assert len(runs) == 2
    assert len(set(runs)) == 1


def test_a_run_with_it_can_be_replaced(run_file, tmp_path):
    import weft
    from weft.config import load_run

    out = tmp_path / "out"
    assert train(run_file, out, OFFLINE) == 0
    run = load_run(run_file)
    model = weft.Model(run.encoder, run.tasks, run.method)
    weft.train(model, run.training, out, progress=False, overwrite=True)
    assert not (out / "wandb").exists()


def test_without_a_login_the_run_continues_without_it(run_file, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["train", str(run_file), 'train.trackers=[{"use": "wandb", "mode": "online"}]', "--out", str(out)]
    assert cli.run(words) == 0
    err = capsys.readouterr().err
    assert err.count("warning: tracker wandb has failed and is switched off; the run continues") == 1
    assert "there is no API key; type: wandb login, or set mode: offline" in err
