"""Trackers: they get the numbers of the log, and no failure of theirs changes a run."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

import weft
from tests.support.tiny_run import assert_refused, breaking_off, metrics_of, write_run
from weft import cli
from weft.config import load_run
from weft.errors import WeftError
from weft.training.trackers import TRACKERS, Tracker, trackers_of
from weft.training.trackers.tracker import numbers_of

pytestmark = pytest.mark.usefixtures("token_cache")


class Recorder(Tracker):
    """Keeps what it gets; fails where it is told to."""

    name = "recorder"

    fails_at: str = ""
    other: str = ""

    def open(self, run):
        OPENED.append(run)
        return _Records(self.fails_at)


class Second(Recorder):
    """A second one, beside the first."""

    name = "second"


class _Records:
    def __init__(self, fails_at):
        if fails_at == "open":
            raise OSError("no way there")
        self.fails_at, self.rows = fails_at, []
        SINKS.append(self)

    def write(self, event, step, numbers):
        if self.fails_at == event:
            raise ConnectionError("the line is cut")
        self.rows.append((event, step, dict(numbers)))

    def close(self, failed):
        if self.fails_at == "close":
            raise RuntimeError("it does not close")
        self.rows.append(("closed", failed))


OPENED: list = []
SINKS: list[_Records] = []


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    OPENED.clear()
    SINKS.clear()
    monkeypatch.setitem(TRACKERS._entries, "recorder", Recorder)
    monkeypatch.setitem(TRACKERS._entries, "second", Second)


@pytest.fixture(scope="module")
def straight(tmp_path_factory, token_cache):
    """A run without trackers."""
    folder = tmp_path_factory.mktemp("straight")
    file = write_run(folder, baselines=False)
    assert cli.run(["train", str(file), "--out", str(folder / "out"), "--quiet"]) == 0
    return folder


def train(straight, out, trackers, *words):
    file = straight / "run.yaml"
    return cli.run(["train", str(file), f"train.trackers={json.dumps(trackers)}", "--out", str(out), *words])


def log_of(out):
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def weights(out):
    return {path.name: load_file(path) for path in sorted((out / "bundle").rglob("*.safetensors"))}


def assert_same_run(first, second):
    assert metrics_of(first) == metrics_of(second)
    one, two = weights(first), weights(second)
    assert one.keys() == two.keys()
    for name, tensors in one.items():
        assert all(tensors[key].equal(two[name][key]) for key in tensors)


def test_a_sink_gets_the_numbers_of_the_log(straight, tmp_path):
    out = tmp_path / "out"
    assert train(straight, out, ["recorder"]) == 0
    (sink,) = SINKS
    lines = [line for line in log_of(out) if "step" in line]
    *rows, last = sink.rows
    assert last == ("closed", False)
    by_event = Counter(event for event, _, _ in rows)
    assert by_event["step"] == 5
    assert by_event["evaluation"] == 4
    assert by_event["end"] == 1
    for event, step, numbers in rows:
        (line,) = (x for x in lines if x["event"] == event and x["step"] == step)
        assert all(math.isfinite(value) for value in numbers.values())
        if event == "step":
            losses = {f"step/loss/{name}": loss for name, loss in line["loss"].items()}
            assert {k: v for k, v in numbers.items() if k.startswith("step/loss/")} == losses
        if event == "evaluation":
            assert numbers["evaluation/tasks/cat/accuracy"] == line["tasks"]["cat"]["accuracy"]
    (run,) = OPENED
    assert (run.folder, run.resumed_at, len(run.id)) == (out, None, 16)
    assert run.settings["train"]["trackers"] == [{"use": "recorder", "fails_at": "", "other": ""}]
    assert_same_run(straight / "out", out)


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("open", "OSError: no way there"),
        ("step", "ConnectionError: the line is cut"),
        ("evaluation", "ConnectionError: the line is cut"),
        ("end", "ConnectionError: the line is cut"),
        ("close", "RuntimeError: it does not close"),
    ],
)
def test_a_failing_sink_is_reported_once_and_switched_off(straight, tmp_path, capsys, place, error):
    out = tmp_path / "out"
    capsys.readouterr()
    assert train(straight, out, [{"use": "recorder", "fails_at": place}, "second"]) == 0
    printed = capsys.readouterr()
    message = "warning: tracker recorder has failed and is switched off; the run continues"
    assert printed.err.count(message) == 1
    assert error in printed.err
    assert "Traceback" not in printed.err
    (event,) = (line for line in log_of(out) if line["event"] == "tracker")
    assert (event["tracker"], event["error"]) == ("recorder", error)
    # the other one goes on to the end, and the run is the same
    assert SINKS[-1].rows[-1] == ("closed", False)
    assert {event for event, *_ in SINKS[-1].rows} >= {"step", "evaluation", "end"}
    assert_same_run(straight / "out", out)


def test_a_resumed_run_keeps_its_id_and_may_have_other_trackers(straight, tmp_path):
    out = tmp_path / "out"
    with breaking_off(11):
        assert train(straight, out, ["recorder"]) == 130
    assert SINKS[0].rows[-1] == ("closed", True)
    assert train(straight, out, ["recorder", "second"], "--resume") == 0
    first, *later = OPENED
    assert [run.id for run in later] == [first.id] * 2
    assert [run.resumed_at for run in (first, *later)] == [None, 9, 9]
    assert_same_run(straight / "out", out)
    other = tmp_path / "other"
    assert train(straight, other, ["recorder"]) == 0
    assert OPENED[-1].id != first.id


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_link_in_place_of_a_trackers_folder_is_refused(straight, tmp_path, capsys, name):
    out = tmp_path / "out"
    with breaking_off(11):
        assert train(straight, out, []) == 130
    (tmp_path / "elsewhere").mkdir()
    (out / name).symlink_to(tmp_path / "elsewhere")
    capsys.readouterr()
    code = train(straight, out, ["recorder"], "--resume")
    assert_refused(code, capsys.readouterr(), [f"{out / name} is a link to"])


def test_tensorboard_true_is_one_tracker():
    def names(**settings):
        return [tracker.name for tracker in trackers_of(weft.Training(**settings))]

    assert names() == []
    assert names(tensorboard=True) == ["tensorboard"]
    assert names(tensorboard=True, trackers=["tensorboard", "recorder"]) == ["tensorboard", "recorder"]
    assert names(tensorboard=True, trackers="recorder") == ["recorder", "tensorboard"]
    assert weft.Training(trackers=None).trackers == []


@pytest.mark.parametrize(
    ("trackers", "message"),
    [
        (["tensorbord"], "tracker 'tensorbord' does not exist; did you mean 'tensorboard'"),
        (["recorder", {"use": "recorder"}], "'recorder' is listed twice; expected each tracker once"),
        ([{"project": "x"}], "lacks the key 'use', which names the tracker"),
        ([3], "expected a name or settings with 'use'; found 3"),
        ([{"use": "wandb", "mode": "of"}], "mode: expected 'online' or 'offline'"),
        ([{"use": "tensorboard", "every": 3}], "every: no such setting"),
    ],
)
def test_wrong_settings(trackers, message):
    with pytest.raises(WeftError, match=message):
        weft.Training(trackers=trackers)


def test_a_missing_package_is_reported_before_anything_is_loaded(straight, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Recorder, "package", "no_such_package")
    capsys.readouterr()
    code = train(straight, tmp_path / "out", ["recorder"])
    expected = ["trackers: recorder needs the package no_such_package; type: pip install no_such_package"]
    assert_refused(code, capsys.readouterr(), expected)
    assert not (tmp_path / "out").exists()
    run = load_run(straight / "run.yaml", ["train.trackers=[recorder]"])  # it can be read all the same
    model = weft.Model(run.encoder, run.tasks, run.method)
    with pytest.raises(WeftError, match="recorder needs the package no_such_package"):
        weft.train(model, run.training, tmp_path / "out", progress=False)
    checked = weft.check(run, estimate=False, progress=False)
    assert not checked.ok
    assert "recorder needs the package" in str(checked)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_numbers_of_a_line_are_finite_and_have_their_paths(fields):
    numbers = numbers_of(fields, "event")
    for path, value in numbers.items():
        assert type(value) is float
        assert math.isfinite(value)
        assert path.startswith("event/")
    flat = {f"event/{k}": v for k, v in fields.items() if type(v) in (int, float) and math.isfinite(v)}
    assert flat.items() <= numbers.items() or any("/" in key for key in fields)
