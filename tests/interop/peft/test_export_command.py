"""`weft export --to peft`: the folder, the README it writes, and users' mistakes."""

from __future__ import annotations

import json
import re

import pytest
import torch

import weft
from tests.support.more import some_of
from tests.support.peft_twin import CLOSE, METHODS, SEVERAL, logits
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder
from weft.cli import run


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peft")
    encoder = save_encoder(folder / "encoder")
    scramble(weft.Model(encoder, SEVERAL, METHODS["morris"], max_length=24)).save(folder / "bundle")
    return folder / "bundle"


@pytest.mark.parametrize("head", ["auto", "file"])
@pytest.mark.parametrize("task", some_of(["a", "b", "c"], 1))
def test_the_command_and_the_readme_it_writes(bundle, tmp_path, capsys, monkeypatch, head, task):
    out = tmp_path / "x"
    code = run(
        ["export", str(bundle), "--to", "peft", "--task", task, "--out", str(out), "--head", head, "--json"]
    )
    told = json.loads(capsys.readouterr().out)
    assert code == 0
    assert told["task_type"] == ("SEQ_CLS" if head == "auto" else "FEATURE_EXTRACTION")
    # no path of this machine: a folder of unknown origin is named without its path, and the README says so
    readme = (out / "README.md").read_text()
    assert json.loads((out / "adapter_config.json").read_text())["base_model_name_or_path"] == "encoder"
    assert str(bundle.parent) not in readme
    assert "`encoder` stands for the folder of the encoder" in readme
    # the code of the README runs, on files that Hugging Face loads
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    code = code.replace('"encoder"', repr(str(bundle.parent / "encoder")))
    monkeypatch.chdir(out)
    names: dict = {}
    with torch.no_grad():
        exec(code.replace("the text", "the old cat").replace("the first", "a red dog"), names)
    model = weft.load(bundle).eval()
    ours = model.run(**names["inputs"], task=torch.full((1,), model.task_id(task)))
    torch.testing.assert_close(names["logits"], logits(model, ours, task).detach(), **CLOSE)


def test_the_encoder_is_named_by_its_hub_id(bundle, tmp_path):
    arguments = ["--to", "peft", "--task", "a", "--set", "base=org/name"]
    assert run(["export", str(bundle), "--out", str(tmp_path / "x"), *arguments]) == 0
    readme = (tmp_path / "x" / "README.md").read_text()
    assert 'from_pretrained("org/name"' in readme
    assert "\nbase_model: org/name\n" in readme
    assert "stands for" not in readme
    # the machine that exported it finds its folder in weft.json
    assert run(["import", str(tmp_path / "x"), "--out", str(tmp_path / "back")]) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to", "keras", "--task", "a"], "--to 'keras' is unknown; known: "),
        (["--to", "petf", "--task", "a"], "did you mean 'peft'?"),
        (["--to", "peft", "--task", "aa"], "task 'aa' is not in this model"),
        (["--to", "peft"], "has 3 tasks, a, b, c; choose one with --task NAME"),
        (["--to", "peft", "--task", "a", "--head", "fil"], "--head 'fil' is unknown; did you mean 'file'?"),
    ],
)
def test_a_users_mistakes(bundle, tmp_path, capsys, arguments, told):
    assert run(["export", str(bundle), "--out", str(tmp_path / "x"), *arguments]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert "Traceback" not in said
    assert not (tmp_path / "x").exists()


def test_no_bundle_and_no_task_option_needed_for_one_task(tmp_path, capsys):
    assert run(["export", str(tmp_path), "--to", "peft", "--out", str(tmp_path / "x")]) == 2
    assert "holds no bundle" in capsys.readouterr().err
    one = scramble(weft.Model(save_encoder(tmp_path / "encoder"), SEVERAL[:1], "lora"))
    one.save(tmp_path / "bundle")
    assert run(["export", str(tmp_path), "--to", "peft", "--out", str(tmp_path / "x")]) == 0
    assert "AutoModelForSequenceClassification" in capsys.readouterr().out
