"""Cheap mistakes are answered before torch or transformers is imported, which takes seconds."""

import json
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from weft.bundle.manifest import MANIFEST, METADATA, SHARED_FILE, method_sha256, task_file
from weft.utils.checksums import file_sha256

SCRIPT = """
import json, sys
from weft.cli.app import run
answers = []
for words in json.loads(sys.argv[1]):
    print("$", *words, file=sys.stderr)
    answers.append(run(words))
heavy = sorted({"torch", "transformers", "datasets", "sklearn"} & set(sys.modules))
print(json.dumps([answers, heavy]))
"""


@pytest.fixture
def bundle(tmp_path):
    """The files of a bundle as far as they are read before torch."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / SHARED_FILE).write_bytes(b"")
    encoder = {"name": "minilm", "sha256": "0", "included": None}
    manifest = {"format": 1, "encoder": encoder, "method": {"use": "lora"}, "tasks": ["cola"], "seed": 1}
    manifest |= {"heads": {"pool": "mean", "dropout": 0.1}, "max_length": 128}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    needs = {"encoder": "0", "shared": file_sha256(folder / SHARED_FILE)}
    needs["method"] = method_sha256(manifest["method"])
    task = {"task": {"name": "cola", "labels": ["no", "yes"]}, "stands_on": needs}
    (folder / "tasks").mkdir()
    save_file({"x": np.zeros(1)}, task_file(folder, "cola"), {METADATA: json.dumps(task)})
    (tmp_path / "lines.jsonl").write_text('{"task": "colaa", "text": "Cats sleep."}\n')
    return folder


@pytest.mark.cpu
def test_no_cheap_mistake_imports_torch(tmp_path, bundle):
    """One process for all commands: a fresh one is what can tell."""
    old = tmp_path / "old"
    old.mkdir()
    (old / "run.yaml").write_text("{}")
    train, new = ["train", "quickstart", "--out", str(tmp_path / "new")], str(tmp_path / "lines.jsonl")
    expected = {
        "holds a run; continue it with --resume": ["train", "quickstart", "--out", str(old)],
        "has no run to resume": [*train, "--resume"],
        "device 'cuda' cannot be used: ": [*train, "--device", "cuda"],
        "device 'gpu' does not exist; did you mean 'cuda'": [*train, "--device", "gpu"],
        "command line, method: method 'lorra' does not exist": [*train, "method=lorra"],
        "command line, train.stepz: no such setting": [*train, "train.stepz=3"],
        "suite 'swatch' has no task 'colaa'": ["check", "quickstart", "tasks.only=[colaa]"],
        "device 'cuda:1' cannot be used: ": ["check", "quickstart", "--device", "cuda:1"],
        "there is no run file 'nosuch'": ["check", "nosuch"],
        "split 'devv' does not exist; known: test, train": ["evaluate", str(bundle), "--split", "devv"],
        "device 'cuda:7' cannot be used: ": ["evaluate", str(bundle), "--device", "cuda:7"],
        "precision 'bf61': expected": ["evaluate", str(bundle), "--precision", "bf61"],
        "is a bundle, which holds no data": ["evaluate", str(bundle)],
        "nosuch holds no bundle": ["evaluate", str(tmp_path / "nosuch")],
        "device 'cuda:2' cannot be used: ": ["predict", str(bundle), new, "--device", "cuda:2"],
        "line 1: task 'colaa' does not exist; did you mean 'cola'?": ["predict", str(bundle), new],
        "has no task 'colas'": ["predict", str(bundle), new, "--tasks", "colas"],
        "there is no such file": ["predict", str(bundle), str(tmp_path / "nosuch.jsonl")],
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(list(expected.values()))],
        capture_output=True,
        text=True,
        check=True,
    )
    codes, heavy = json.loads(done.stdout)
    assert codes == [2] * len(expected)
    assert heavy == []
    answers = done.stderr.split("$ ")[1:]
    for message, answer in zip(expected, answers, strict=True):
        assert message in answer
    assert not (tmp_path / "new").exists()
