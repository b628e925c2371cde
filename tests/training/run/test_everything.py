"""examples/everything.yaml by the default engine on a GPU: every suite, every kind, one batch stream."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
import yaml

from tests.support.official import write_hub
from tests.support.paths import ROOT
from tests.support.tiny_run import save_encoder

pytestmark = pytest.mark.gpu
EXAMPLE = ROOT / "examples" / "everything.yaml"


def test_everything_trains_by_the_default_engine(tmp_path):
    """On generated data and swatch, heads that read the mean of all tokens, as minilm's do."""
    run = yaml.safe_load(EXAMPLE.read_text())
    for entry in run["tasks"]:
        write_hub(tmp_path / "data", entry["suite"])
        entry["root"] = str(tmp_path / "data")
    run["tasks"].append({"suite": "swatch"})
    run["encoder"] = str(save_encoder(tmp_path / "encoder"))
    run["heads"] = {"pool": "mean"}
    run["train"] |= {"steps": 200, "log_every": 20, "evaluate_every": 100, "max_length": 64}
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(run))
    command = [sys.executable, "-m", "weft", "train", str(file), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    end = lines[-1]
    assert end["event"] == "end"
    assert end["engine"] == "graph", done.stderr[-2000:]
    assert not [line for line in lines if line["event"] == "engine"], "the run fell back"
    losses = [loss for line in lines if line["event"] == "step" for loss in line["loss"].values()]
    assert losses
    assert all(math.isfinite(loss) for loss in losses)
    assert len(end["tasks"]) >= 23
