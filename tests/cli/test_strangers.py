"""Commands on files of strangers: nothing of theirs runs, control characters are escaped, exit code 2."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

import weft
from tests.support.more import some_of
from tests.support.peft_twin import change_json, saved
from tests.support.planted import Trace, forget_checksums, plant_code
from tests.support.tiny import tiny
from tests.support.tiny_run import rows_of, save_encoder, write_rows
from weft.cli import run

CAT = weft.Task("cat", labels=("no", "yes"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An encoder, and a bundle that contains it."""
    folder = tmp_path_factory.mktemp("place")
    encoder = save_encoder(folder / "encoder")
    weft.Model(str(encoder), [CAT], {"use": "lora", "rank": 2}).save(folder / "bundle", with_encoder=True)
    return folder


@pytest.fixture
def bundle(place, tmp_path):
    return forget_checksums(shutil.copytree(place / "bundle", tmp_path / "bundle"))


def answered(capsys, *words):
    """Run a command that must fail with exit code 2 and a message; returns the message."""
    capsys.readouterr()
    code = run(list(map(str, words)))
    told = capsys.readouterr()
    assert code == 2, told
    assert "Traceback" not in told.err
    return told.err


@pytest.mark.slow
def test_yes_to_every_question_runs_nothing(place, bundle, tmp_path):
    """As `yes | weft predict …` in a shell: today's transformers would ask, and run the code."""
    trace = Trace(tmp_path)
    plant_code(bundle / "encoder", trace)
    command = [sys.executable, "-m", "weft", "predict", str(bundle), "--text", "a cat"]
    environment = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")}
    done = subprocess.run(
        command, input="y\n" * 100, capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "which weft does not run" in done.stderr
    trace.assert_clean()


def commands(bundle, encoder, tmp_path):
    """Every command that loads an encoder, with one that comes with code."""
    rows = write_rows(tmp_path / "rows.jsonl", rows_of("cat", 12, 0))
    task = {"texts": ["text"], "labels": ["no", "yes"], "train": str(rows), "validation": str(rows)}
    settings = {"encoder": str(encoder), "method": "frozen", "tasks": {"cat": task}, "train": {"steps": 1}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings))
    saved(tmp_path / "peft", tiny("bert"), target_modules=["query"], r=3)
    change_json(tmp_path / "peft" / "adapter_config.json", base_model_name_or_path=str(encoder))
    labels = ("--task", "x", "--labels", "a,b", "--out", tmp_path / "out")
    return {
        "predict": ("predict", bundle, rows),
        "predict --encoder": ("predict", bundle, rows, "--encoder", encoder),
        "evaluate": ("evaluate", bundle, "--tasks", tmp_path / "run.yaml"),
        "train": ("train", tmp_path / "run.yaml", "--out", tmp_path / "out"),
        "check": ("check", tmp_path / "run.yaml"),
        "import": ("import", tmp_path / "peft", *labels),
        "import --encoder": ("import", tmp_path / "peft", *labels, "--encoder", encoder),
        "export": ("export", bundle, "--to", "peft", "--out", tmp_path / "out"),
        "compact": ("compact", bundle, "--out", tmp_path / "out"),
        "show storage": ("show", "storage", bundle),
    }


NAMES = [
    *("predict", "predict --encoder", "evaluate", "train", "check", "import", "import --encoder"),
    *("export", "compact", "show storage"),
]


@pytest.mark.parametrize("name", some_of(NAMES, ["predict", "train", "check", "import", "show storage"]))
def test_code_of_an_encoder_runs_in_no_command(bundle, tmp_path, capsys, monkeypatch, name):
    trace = Trace(tmp_path)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda prompt="": "y")
    encoder = plant_code(bundle / "encoder", trace)
    assert "which weft does not run" in answered(capsys, *commands(bundle, encoder, tmp_path)[name])
    trace.assert_clean()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("task", "remove", "B", "cat", "--out", "OUT"),
        ("task", "copy", "B", "cat", "B", "--as", "dog"),
        ("assemble", "B", "B", "--out", "OUT"),
        ("predict", "B", "--text", "x"),
        ("show", "storage", "B"),
    ],
)
def test_links_in_a_bundle_are_refused_by_every_command(bundle, tmp_path, capsys, words):
    (bundle / "loop").symlink_to(".")
    places = {"B": bundle, "OUT": tmp_path / "out"}
    assert "loop is a link to ." in answered(capsys, *(places.get(word, word) for word in words))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle"]


def test_a_resumed_run_writes_through_no_link(place, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (tmp_path / "run").mkdir()
    words = commands(place / "bundle", place / "encoder", tmp_path)["check"]
    (tmp_path / "run" / "run.yaml").write_text("x: 1")
    (tmp_path / "run" / "log.jsonl").symlink_to(secret)
    told = answered(capsys, "train", words[1], "--out", tmp_path / "run", "--resume")
    assert "log.jsonl is a link to" in told
    assert secret.read_text() == "mine"


EVIL = "\x1b[2J\x1b]0;owned\x07\u202e"


def test_control_characters_of_labels_and_columns_do_not_reach_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{f"text{EVIL}": f"cat {n}", f"label{EVIL}": f"yes{EVIL}" if n % 2 else "no"} for n in range(40)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for words in (["new", "data.jsonl", "--force"], ["new", "data.jsonl", "--force", "--label", "x"]):
        run(words)
        printed = "".join(capsys.readouterr())
        assert printed
        assert not set(printed) & set("\x1b\x07\u202e")


def test_control_characters_of_file_names_do_not_reach_the_terminal(tmp_path, capsys):
    for command in ("train", "check"):
        told = answered(
            capsys, command, tmp_path / f"no{EVIL}.yaml", *(["--out", "x"] if command == "train" else [])
        )
        assert "\\x1b" in told
        assert not set(told) & set("\x1b\x07\u202e")
    bad = os.fsdecode(b"bad\xff.yaml")  # a name that is not UTF-8
    (tmp_path / bad).write_text("encoder: [")
    assert "bad\\udcff.yaml: line 1" in answered(capsys, "check", tmp_path / bad)


@pytest.mark.parametrize(
    "text", ["a: !!int ''", "a: !!bool x", "a: !!timestamp x", "a: 2020-99-99", "a: 0x_"]
)
def test_pyyamls_own_errors_are_answered_with_their_line(tmp_path, capsys, text):
    (tmp_path / "run.yaml").write_text(f"encoder: minilm\n{text}\n")
    assert "run.yaml: line 2, column 4: this is not YAML" in answered(capsys, "check", tmp_path / "run.yaml")
    value = text.partition(": ")[2]
    (tmp_path / "run.yaml").write_text("encoder: minilm\ntasks: {suite: swatch}\n")
    told = answered(capsys, "check", tmp_path / "run.yaml", f"train.steps={value}")
    assert "command line, train.steps: the value" in told


def test_absurd_steps_are_answered_at_once(tmp_path, capsys):
    (tmp_path / "run.yaml").write_text(
        "encoder: minilm\ntasks: {suite: swatch}\ntrain:\n  steps: 9223372036854775808\n"
    )
    told = answered(capsys, "check", tmp_path / "run.yaml")
    assert "line 4, train.steps: expected less than or equal to 100000000; found 9223372036854775808" in told
