"""`weft export --to onnx`, `weft predict` and `weft serve` with the export, and users' mistakes."""

from __future__ import annotations

import json
import shutil

import pytest

import weft
from tests.support.exported_onnx import REQUESTS
from tests.support.near import assert_near
from tests.support.serving import plain, save_every_kind, serving
from weft.cli import run
from weft.errors import WeftError
from weft.interop import OnnxModel
from weft.interop.onnx.export import export_onnx
from weft.interop.onnx.folder import INPUTS


def test_the_folder(export):
    names = {file.name for file in (export / "onnx").iterdir()}
    assert {"model.onnx", "tasks.json", "tokenizer.json"} <= names
    facts = json.loads((export / "onnx" / "tasks.json").read_text())
    assert list(facts["inputs"]) == [
        *("input_ids", "attention_mask", "token_type_ids", "marks", "task", "example")
    ]
    assert facts["inputs"].items() <= INPUTS.items()
    tasks = weft.load(export / "bundle").tasks
    assert [task["settings"] for task in facts["tasks"]] == json.loads(
        json.dumps([task.settings() for task in tasks])
    )
    assert [task["id"] for task in facts["tasks"]] == list(range(len(tasks)))
    assert str(export) not in (export / "onnx" / "tasks.json").read_text()  # no path of this machine
    assert facts["encoder"].keys() == {"name", "weights_sha256"}
    assert facts["encoder"]["name"] == "encoder"
    assert facts["method"] == weft.load(export / "bundle").method.settings()


def test_an_export_of_before_has_no_provenance(export, tmp_path):
    """It is read as any other."""
    shutil.copytree(export / "onnx", tmp_path / "old")
    facts = json.loads((tmp_path / "old" / "tasks.json").read_text())
    for name in ("encoder", "method"):
        del facts[name]
    (tmp_path / "old" / "tasks.json").write_text(json.dumps(facts))
    old, new = OnnxModel(tmp_path / "old"), OnnxModel(export / "onnx")
    assert_near(old.predict(REQUESTS[:4]), new.predict(REQUESTS[:4]), 1e-6)


@pytest.mark.parametrize("backend", [[], ["--backend", "onnx"]])
def test_predict_prints_what_the_bundle_predicts(export, tmp_path, capsys, backend):
    rows = [{"task": name, **row} for name, row in REQUESTS]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    printed = []
    for folder, more in (("onnx", backend), ("bundle", [])):
        assert run(["predict", str(export / folder), str(file), *more]) == 0
        printed.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert_near(*printed, 1.1e-4)
    assert run(["predict", str(export / "onnx"), "--all", "--text", "the cat", *backend]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"classify", "two", "multilabel", "tag"}


def test_several_files_by_a_worker(export, tmp_path, capsys):
    """One worker process with the graph; a second call has nothing left to do."""
    for number, rows in enumerate((REQUESTS[:4], REQUESTS[4:])):
        lines = [json.dumps({"task": name, **row}) + "\n" for name, row in rows]
        (tmp_path / f"{number}.jsonl").write_text("".join(lines))
    files = [str(file) for file in sorted(tmp_path.glob("*.jsonl"))]
    out = tmp_path / "out"
    command = ["predict", str(export / "onnx"), *files, "--out", str(out), "--workers", "1"]
    assert run(command) == 0
    written = sorted(out.glob("*.jsonl"))
    found = [json.loads(line) for file in written for line in file.read_text().splitlines()]
    assert_near(found, weft.load(export / "bundle").predict(REQUESTS), 1.1e-4)
    before = [file.stat().st_mtime_ns for file in written]
    capsys.readouterr()
    assert run(command) == 0
    assert [file.stat().st_mtime_ns for file in written] == before
    other = [
        "predict",
        str(export / "bundle"),
        *files,
        "--out",
        str(out),
        "--workers",
        "1",
        "--backend",
        "onnx",
    ]
    assert run(other) == 2
    assert "--to onnx" in capsys.readouterr().err


def test_serve_answers_as_the_bundle(export):
    model = weft.load(export / "bundle")
    with serving(export / "onnx", backend="onnx") as server:
        client = server.client()
        assert_near([plain(answer) for answer in client.predict(REQUESTS)], model.predict(REQUESTS), 1e-4)
        many = client.predict_all(["the cat sees"])
        assert_near(
            {name: plain(answer) for name, answer in many[0].items()},
            model.predict_all(["the cat sees"])[0],
            1e-4,
        )
        vectors = client.embed(["the cat", "now"], task="classify")
        assert_near(
            [list(map(float, v)) for v in vectors], model.embed(["the cat", "now"], "classify").tolist(), 1e-4
        )
        assert server.app.engine.device == "cpu"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["predict", "{bundle}", "--text", "x", "--backend", "onnx"], "weft export {bundle} --to onnx"),
        (["predict", "{onnx}", "--text", "x", "--backend", "torch"], "pass the bundle"),
        (["predict", "{onnx}", "--text", "x", "--backend", "onyx"], "onnx"),
        (["predict", "{onnx}", "--task", "clasify", "--text", "x"], "classify"),
        (["predict", "{onnx}", "--task", "classify", "--text", "x", "--precision", "bf16"], "float32"),
        (
            ["predict", "{onnx}", "--task", "classify", "--text", "x", "--encoder", "minilm"],
            "leave --encoder",
        ),
        (["serve", "{onnx}", "--admin", "--port", "0"], "--admin"),
        (["evaluate", "{onnx}"], "not a bundle"),
        (["export", "{bundle}", "--to", "onnx", "--task", "classify", "--out", "x"], "leave --task out"),
        (["export", "{bundle}", "--to", "onnx", "--out", "{bundle}"], "pass a different folder"),
        (["export", "{bundle}", "--to", "onnx", "--out", "x", "--set", "precision=int4"], "int8"),
    ],
)
def test_mistakes_are_explained(export, capsys, arguments, expected):
    names = {"bundle": export / "bundle", "onnx": export / "onnx"}
    assert run([argument.format(**names) for argument in arguments]) == 2
    assert expected.format(**names) in capsys.readouterr().err


def test_an_export_is_not_loaded_as_a_bundle(export):
    with pytest.raises(WeftError, match="export to ONNX"):
        weft.load(export / "onnx")


def test_separate_is_refused_with_its_reason(tmp_path, capsys):
    bundle = save_every_kind(tmp_path, "separate", ("classify", "two"))
    assert run(["export", str(bundle), "--to", "onnx", "--out", str(tmp_path / "x")]) == 2
    told = capsys.readouterr().err
    assert "one whole encoder per task" in told
    assert "--to hf" in told
    command = ["export", str(bundle), "--task", "classify", "--to", "hf", "--out", str(tmp_path / "hf")]
    assert run(command) == 0, "what the message says works"
    assert not (tmp_path / "x").exists()


def test_a_missing_package_is_named(export, tmp_path, monkeypatch):
    monkeypatch.setattr("weft.interop.onnx.packages.find_spec", lambda name: None)
    with pytest.raises(WeftError, match=r"weft\[onnx\]"):
        export_onnx(weft.load(export / "bundle"), tmp_path / "x")


@pytest.mark.slow
def test_int8_by_the_command(tmp_path, capsys):
    bundle = save_every_kind(tmp_path, None, ("classify", "two"))
    out = tmp_path / "x"
    command = ["export", str(bundle), "--to", "onnx", "--out", str(out), "--set", "precision=int8", "--json"]
    assert run(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["precision"] == "int8"
    assert told["inputs"] == ["input_ids", "attention_mask", "token_type_ids", "task"]  # one row per example
    assert run(["predict", str(out), "--task", "two", "--text", "the cat", "--precision", "int8"]) == 0
    value = json.loads(capsys.readouterr().out)["value"]
    assert value == pytest.approx(weft.load(bundle).predict("two", "the cat")["value"], abs=0.1)
