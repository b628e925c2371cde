"""`weft push` and `weft card`, and commands that take the name of a repository, as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import weft
from tests.support.hub import stand_in
from tests.support.hub_client import address_to, environment, files_of
from tests.support.hub_state import TOKEN
from tests.support.tiny import TASKS, scramble
from tests.support.tiny_run import assert_refused, save_encoder
from weft.cli import run


@pytest.fixture(scope="module")
def server():
    with stand_in() as hub:
        yield hub


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    tasks = [*TASKS[:2], weft.Task("pair", texts=("x", "y"), labels=("no", "yes"))]
    model = weft.Model(save_encoder(folder / "e"), tasks, {"use": "lora", "rank": 2}, max_length=24)
    scramble(model).save(folder / "b", with_encoder=True)
    return folder / "b"


@pytest.fixture
def hub(server, monkeypatch, tmp_path):
    address_to(monkeypatch, server.address, tmp_path / "home")
    server.clear()
    monkeypatch.chdir(tmp_path)
    return server


def typed(capsys, *arguments):
    capsys.readouterr()
    code = run([str(argument) for argument in arguments])
    return code, capsys.readouterr()


@pytest.mark.slow
def test_in_processes_of_their_own_that_find_the_hub_by_its_variables(server, bundle, tmp_path, capsys):
    """Nothing of this process reaches them: only HF_ENDPOINT and the like."""
    server.clear()
    variables = {**os.environ, **environment(server.address, tmp_path / "home"), "OMP_NUM_THREADS": "1"}

    def weft_command(*words):
        return subprocess.run(
            [sys.executable, "-m", "weft", *map(str, words)],
            capture_output=True,
            text=True,
            env=variables,
            cwd=tmp_path,
            timeout=300,
        )

    done = weft_command("push", bundle, "anna/cli", "--private", "--message", "hello", "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["commit"] == server.repositories["anna/cli"].branches["main"]
    assert (server.repositories["anna/cli"].private, server.repositories["anna/cli"].messages[-1]) == (
        True,
        "hello",
    )
    server.forget()
    words = ("predict", "--task", "b", "--text", "the old cat")
    there = weft_command(words[0], "anna/cli", *words[1:])
    assert there.returncode == 0, there.stderr
    assert {path for path in server.fetched() if path.startswith("tasks/")} == {"tasks/b.safetensors"}
    assert there.stdout == typed(capsys, words[0], bundle, *words[1:])[1].out


def test_every_command_that_takes_a_bundle_takes_a_name(hub, bundle, tmp_path, capsys):
    hub.put("anna/x", files_of(bundle))
    rows = [{"text": "the cat", "label": "no"}, {"text": "a dog", "label": "yes"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "run.yaml").write_text(
        "tasks: {a: {labels: ['no', 'yes'], train: rows.jsonl, validation: rows.jsonl}}\n"
    )
    commands = {
        "evaluate anna/x --tasks run.yaml --json": lambda out: json.loads(out)["rows"] == {"a": 2},
        "predict anna/x rows.jsonl --task a": lambda out: len(out.splitlines()) == 2,
        "show storage anna/x --json": lambda out: set(json.loads(out)["tasks"]) == {"a", "b", "pair"},
        "export anna/x --task a --to peft --out exported": lambda out: (tmp_path / "exported").is_dir(),
        "task remove anna/x a --out less": lambda out: (tmp_path / "less" / "bundle.json").is_file(),
        "card anna/x": lambda out: "anna/x" not in out.partition("---\n\n")[0],
        "show similarity anna/x --json": None,
    }
    for command, fits in commands.items():
        code, told = typed(capsys, *command.split())
        assert code == 0, (command, told.err)
        assert fits is None or fits(told.out), command


def test_settings_of_a_bundle_on_the_hub_are_not_changed(hub, bundle, tmp_path, capsys):
    hub.put("anna/x", files_of(bundle))
    (tmp_path / "rows.jsonl").write_text('{"text": "the cat", "label": "no"}\n')
    (tmp_path / "run.yaml").write_text(
        "tasks: {a: {labels: ['no', 'yes'], train: rows.jsonl, validation: rows.jsonl}}\n"
    )
    code, told = typed(capsys, "evaluate", "anna/x", "--tasks", "run.yaml", "--calibrate")
    assert_refused(code, told, ["anna/x was loaded from the hub and cannot be changed", "hf download anna/x"])


@pytest.mark.parametrize(
    ("token", "words", "messages"),
    [
        (TOKEN, "predict anna/no --text x", ["anna/no holds no bundle", "hf auth login"]),
        (TOKEN, "push BUNDLE anna", ["expected user/name"]),
        (TOKEN, "push BUNDLE anna/x --out folder", ["--dry-run"]),
        (TOKEN, "push BUNDLE somebody/x", ["your token does not allow this", "hf auth login"]),
        (TOKEN, "push missing/folder anna/x", ["missing/folder holds no bundle"]),
        (TOKEN, "push BUNDLE anna/x --card nothing.md", ["nothing.md cannot be read"]),
        (TOKEN, "push BUNDLE anna/x --revision ..", ["not the name of a branch"]),
        (TOKEN, "card BUNDLE --name x", ["expected user/name"]),
        (None, "push BUNDLE anna/x", ["there is no token", "HF_TOKEN"]),
        ("hf_wrong", "push BUNDLE anna/x", ["refuses your token", "hf auth login"]),
    ],
)
def test_mistakes_are_one_message(hub, bundle, tmp_path, monkeypatch, capsys, token, words, messages):
    address_to(monkeypatch, hub.address, tmp_path / "other", token)
    code, told = typed(capsys, *[str(bundle) if word == "BUNDLE" else word for word in words.split()])
    assert_refused(code, told, messages)
    assert hub.repositories == {}


def test_no_network_is_one_message(bundle, tmp_path, monkeypatch, capsys):
    address_to(monkeypatch, "http://127.0.0.1:9", tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    for words in (["push", bundle, "anna/x"], ["predict", "anna/x", "--text", "x"], ["serve", "anna/x"]):
        code, told = typed(capsys, *words)
        assert_refused(code, told, ["the hub cannot be reached"])


def test_a_dry_run_and_the_card(hub, bundle, tmp_path, capsys):
    code, told = typed(capsys, "push", bundle, "anna/x", "--dry-run", "--license", "mit", "--out", "staged")
    assert code == 0, told.err
    assert "what would be uploaded" in told.out
    assert hub.seen == []
    card = (tmp_path / "staged" / "README.md").read_text()
    code, told = typed(capsys, "card", bundle, "--name", "anna/x", "--license", "mit")
    assert (code, told.out) == (0, card)
    code, told = typed(capsys, "card", "staged", "--json")
    assert json.loads(told.out) == {"card": card, "written": None}
    (tmp_path / "staged" / "README.md").write_text("---\nlicense: mit\n---\n# mine\n")
    assert typed(capsys, "push", "staged", "anna/x")[0] == 0
    assert hub.repositories["anna/x"].files["README.md"] == b"---\nlicense: mit\n---\n# mine\n"
    code, told = typed(capsys, "card", "staged", "--new", "--write")
    assert code == 0
    assert "## Tasks" in (tmp_path / "staged" / "README.md").read_text()
