"""What every released version has written is still read: its bundles, and a run that it broke off.

tests/released/VERSION was made by that version (tests/released/make.py) and is never made again.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import weft
from tests.support.paths import ROOT
from tests.support.tiny_run import TIMES, breaking_off, metrics_of
from weft.cli import run

RELEASED = ROOT / "tests" / "released"
VERSIONS = sorted(path for path in RELEASED.glob("*") if path.is_dir() and path.name != "__pycache__")
BUNDLES = [path for version in VERSIONS for path in sorted((version / "bundle").glob("*"))]
NOWHERE = "/nowhere"
"""What stands for the folder of the broken run in its run.yaml."""

UNFELT = re.compile(r" heads\.(choose|rank|span)-\S*\.bias$")
"""What shifts all choices or tokens alike: its gradient is rounding, of which Adam makes whole steps."""

pytestmark = pytest.mark.usefixtures("token_cache")


def name_of(path: Path) -> str:
    return path.relative_to(RELEASED).as_posix()


def expected_of(version: Path) -> dict[str, Any]:
    return json.loads((version / "expected.json").read_text(encoding="utf-8"))


def tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder's files, by file and name."""
    files = sorted(folder.rglob("*.safetensors"))
    return {f"{file.relative_to(folder)} {k}": t for file in files for k, t in load_file(file).items()}


def lines_of(out: Path, *events: str) -> list[dict[str, Any]]:
    """The lines of a run's log that tell of such events, by default of its course; without times."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    chosen = [line for line in lines if line["event"] in (events or ("step", "evaluation"))]
    # that version counted no examples: its lines of losses have none, the next one too few
    left_out = (*TIMES, "examples")
    return [{key: line[key] for key in line if key not in left_out} for line in chosen]


def same_bits(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> bool:
    return found.keys() == wanted.keys() and all(torch.equal(t, wanted[name]) for name, t in found.items())


def assert_near(found: dict[str, Tensor], wanted: dict[str, Tensor], within: float) -> None:
    """The same tensors, all but `UNFELT` ones within so much."""
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        if UNFELT.search(name):
            continue
        torch.testing.assert_close(
            found[name], tensor, rtol=0, atol=within, msg=lambda text, name=name: f"{name}: {text}"
        )


def assert_told(found: Any, wanted: Any, within: float, place: str = "") -> None:
    """The same answer: numbers within so much, all else equal; a later version may say more."""
    if isinstance(wanted, dict):
        assert isinstance(found, dict), place
        assert wanted.keys() <= found.keys(), place
        for key, value in wanted.items():
            assert_told(found[key], value, within, f"{place}.{key}")
    elif isinstance(wanted, list):
        assert isinstance(found, list), place
        assert len(found) == len(wanted), place
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_told(one, other, within, f"{place}.{number}")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=0, abs=within, nan_ok=True), place
    else:
        assert found == wanted, place


def test_every_version_is_whole():
    assert VERSIONS, f"{RELEASED} holds no released version"
    for version in VERSIONS:
        expected = expected_of(version)
        assert expected["weft"] == version.name
        assert {path.name for path in BUNDLES if version in path.parents} == set(expected["bundles"])
        assert expected["straight"] in expected["bundles"]


@pytest.mark.parametrize("bundle", BUNDLES, ids=name_of)
def test_a_bundle_is_loaded_and_judged_as_then(bundle, tmp_path, capsys):
    version = bundle.parents[1]
    expected = expected_of(version)["bundles"][bundle.name]
    moved = shutil.copytree(bundle, tmp_path / "bundle")
    data = version / "broken" / "run.yaml"
    assert run(["evaluate", str(moved), "--tasks", str(data), "--device", "cpu", "--json"]) == 0
    assert_told(json.loads(capsys.readouterr().out), expected["evaluation"], 1e-5)
    model = weft.load(moved, device="cpu")
    found = model.predict([(task, given) for task, given in expected["requests"]])
    assert_told(json.loads(json.dumps(found)), expected["answers"], 1e-5)
    # an answer of `tag` has no number in it: what is read into a wrong place would not show
    ids = torch.tensor([expected["input_ids"]] * len(model.tasks))
    with torch.no_grad():
        hidden = model(ids, task=torch.arange(len(model.tasks))).hidden[:, 0]
    torch.testing.assert_close(hidden, torch.tensor(expected["hidden"]), rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS, ids=name_of)
def test_a_broken_off_run_goes_on(version, tmp_path):
    expected = expected_of(version)
    folder = shutil.copytree(version / "broken", tmp_path.resolve() / "run")
    resumed, straight, half = folder / "out", folder / "straight", folder / "half"
    said = resumed / "run.yaml"
    said.write_text(said.read_text(encoding="utf-8").replace(NOWHERE, str(folder)), encoding="utf-8")
    stored = tensors(resumed / "checkpoints")
    call = ["train", str(folder / "run.yaml"), "--device", "cpu", "--out"]
    assert run([*call, str(resumed), "--resume"]) == 0
    assert run([*call, str(straight)]) == 0
    with breaking_off(expected["broken_at"]):
        assert run([*call, str(half)]) == 130

    # another torch or processor rounds otherwise; where the first half has the same bits, so has the end
    first = tensors(half / "checkpoints")
    assert_near(stored, first, 1e-5)
    same = same_bits(stored, first)
    if same:
        assert same_bits(tensors(resumed), tensors(straight))
    assert_near(tensors(resumed), tensors(straight), 1e-5)
    ends = [metrics_of(out) for out in (resumed, straight)]
    assert_told(ends[0], ends[1], 0.0 if same else 1e-4)
    old = tensors(version / "bundle" / expected["straight"])
    old = {name: tensor for name, tensor in old.items() if not name.startswith("encoder/")}
    for out in (resumed, straight):
        assert_near(tensors(out / "bundle"), old, 1e-4)

    # lines of the first half were written then: with the same weights, another processor evaluates otherwise
    lines = list(zip(lines_of(straight), lines_of(resumed), strict=True))
    for line, after in lines:
        then = after["step"] < expected["broken_at"]
        # a weight in the log is of NumPy, whose releases differ in the last bit
        assert_told(line, after, (1e-5 if then else 1e-15) if same else 1e-4)
    assert any(after["step"] > expected["broken_at"] for _, after in lines)
    events = [line["event"] for line in lines_of(resumed, "start", "resume", "end")]
    assert events == ["start", "resume", "end"]
