"""A message has the words of its caller: flags, keys of a run file, or arguments of Python."""

from __future__ import annotations

import ast
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.paths import ROOT
from weft.config import load_run
from weft.errors import WeftError, command_line, run_file_words, train_key, words

SOURCE = ROOT / "src" / "weft"
OF_THE_COMMAND_LINE = (
    *("cli", "evaluation/submission", "workflows/submit.py", "analysis"),
    *("data/drafting", "workflows/new", "reporting", "experiments/call.py"),
    *("inference/requests.py", "workflows/predict.py", "workflows/prediction_", "corpora"),
    "utils/ray_start.py",
    "hub/body.py",
    "hub/facts.py",
    "utils/hub_repository.py",
    "interop/hf",
    "interop/onnx",
    "interop/refusals.py",
    "interop/peft/updates.py",
    "interop/sentence_transformers/card.py",
)
"""What only commands call, or print: submissions and measures; the drafts of `weft new`; the files of
`weft predict`, for which Python has `predict` and `predict_stream`; the options of `--on ray`; the commands
that a model card shows, and the hub's own; the command that offers another export format."""
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def test_words():
    assert words("--out", "out") == "out"
    with command_line():
        assert words("--out", "out") == "--out"
        assert train_key("lr") == "train.lr"
        with ThreadPoolExecutor(1) as pool:  # tokenization runs in a second thread
            assert pool.submit(words, "--out", "out").result() == "--out"
    assert train_key("lr") == "Training(lr=…)"
    with run_file_words():
        assert train_key("lr") == "train.lr"
    assert words("--out", "out") == "out"


def test_a_run_file_read_in_python_is_answered_with_its_keys(tmp_path):
    file = tmp_path / "run.yaml"
    for labels, message in (("", "labels: none are named"), ("labels: [a, b], ", "set train.evaluate_every")):
        tasks = f"tasks: {{x: {{{labels}train: a.csv}}}}"
        file.write_text(f"encoder: random:bert-tiny\n{tasks}\ntrain: {{stop: {{patience: 3}}}}\n")
        with pytest.raises(WeftError) as wrong:
            load_run(file)
        assert message in str(wrong.value)


def flags_in_messages(tree: ast.AST) -> list[str]:
    """The strings with a flag that are no docstring and not the first argument of `words`."""
    fine: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            fine.add(id(node.value))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "words":
            fine.update(id(part) for part in ast.walk(node.args[0]))
    strings = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    found = [n.value for n in strings if id(n) not in fine and FLAG.search(n.value)]
    # pip, the hub, the README of an export, and a command without a function in Python
    return [
        text
        for text in found
        if not re.search("reinstall|pip install|pip download|hf download|weft import|weft policy", text)
    ]


FILES = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if not str(path.relative_to(SOURCE)).startswith(OF_THE_COMMAND_LINE)
]


def test_no_flag_in_a_message_for_python():
    wrong = {
        str(path.relative_to(SOURCE)): flags
        for path in FILES
        if (flags := flags_in_messages(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert wrong == {}


def test_the_check_finds_flags():
    assert flags_in_messages(ast.parse("raise WeftError('pass a different --out')"))
    assert not flags_in_messages(ast.parse("x = words('--out', 'out')"))
