"""Files of strangers are read by the modules that check them, and by no others (docs/security.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "weft"
PRETRAINED = "encoder/pretrained.py"
YAML = "utils/safe_yaml.py"
WEFTS_OWN_YAML = "suites/tables.py"
"""Reads files that come with weft."""


@cache
def calls() -> list[tuple[str, ast.Call, str]]:
    """Every call: the file, the call, and the function's dotted name as it is written."""
    return list(_calls())


def _calls() -> Iterator[tuple[str, ast.Call, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield path.relative_to(SOURCE).as_posix(), node, ast.unparse(node.func)


def keyword(call: ast.Call, name: str) -> object:
    """The constant that a call passes under a name; ... if it passes none."""
    return next(
        (k.value.value for k in call.keywords if k.arg == name and isinstance(k.value, ast.Constant)), ...
    )


def found(names: set[str]) -> list[tuple[str, ast.Call, str]]:
    return [
        (file, call, name) for file, call, name in calls() if name in names or name.split(".")[-1] in names
    ]


def test_transformers_is_told_to_run_no_code():
    """Everywhere. A checkpoint without a folder, `from_pretrained(None, …)`, has no code."""
    loads = found({"from_pretrained", "from_config"})
    assert len(loads) >= 4
    for file, call, name in loads:
        without_folder = (
            bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value is None
        )
        if not without_folder:
            assert keyword(call, "trust_remote_code") is False, f"{file}:{call.lineno}: {name}"


def test_only_one_module_reads_checkpoints_by_transformers():
    files = {file for file, _, name in found({"from_pretrained"})}
    assert files == {PRETRAINED}


def test_pickles_are_read_for_their_tensors_alone():
    loads = found({"torch.load"})
    assert [file for file, _, _ in loads] == ["utils/weight_files.py"]
    assert all(keyword(call, "weights_only") is True for _, call, _ in loads)
    # what the processes of one server send to each other, through pipes that no other process has
    own = {"serving/processes/channel.py", "serving/processes/http_process.py"}
    unpickled = found({"pickle.load", "pickle.loads", "Unpickler", "joblib.load", "marshal.loads"})
    assert {(file, name) for file, _, name in unpickled} == {(file, "pickle.loads") for file in own}
    allow = [call for file, call, name in calls() if keyword(call, "allow_pickle") is True]
    assert allow == []


def test_yaml_is_read_by_one_module():
    names = {
        "yaml.load",
        "yaml.safe_load",
        "yaml.full_load",
        "yaml.unsafe_load",
        "yaml.compose",
        "yaml.load_all",
    }
    assert {file for file, _, _ in found(names)} <= {WEFTS_OWN_YAML}


def test_no_text_is_run():
    names = {"eval", "exec", "compile", "os.system", "os.popen", "subprocess.run", "subprocess.Popen"}
    allowed = {
        ("encoder/fetch.py", "subprocess.run"),  # pip, with names and versions that weft records
        ("experiments/gpu_sharing.py", "subprocess.run"),  # NVIDIA's programs, without arguments of a user
        ("experiments/pool.py", "subprocess.Popen"),  # `python -m weft.experiments.worker`
        ("serving/processes/peer.py", "subprocess.Popen"),  # `python -m weft.serving.processes.http_process`
        ("utils/lock_holder.py", "subprocess.run"),  # `ps` with the number of a process
    }
    assert {(file, name) for file, _, name in calls() if name in names} == allowed


def test_consoles_write_what_is_escaped():
    """`weft.utils.terminal.console` makes them."""
    assert {file for file, _, _ in found({"Console"})} == {"utils/terminal.py"}


def test_the_security_page_names_the_limits():
    from weft.bundle import from_hub
    from weft.data.readers import compressed, parquet_batches
    from weft.evaluation.submission import archive
    from weft.hub import card
    from weft.tasks.checks import MOST_OUTPUTS, WIDEST
    from weft.training.settings import MOST_STEPS, Training
    from weft.utils import linear_regex, safe_json, safe_yaml

    page = Path(ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    most = {name: field.metadata for name, field in Training.model_fields.items()}
    sizes = [
        str(next(m.le for m in most[key] if hasattr(m, "le")))
        for key in ("batch_size", "accumulate", "max_length")
    ]
    million = 2**20
    for words in (
        f"{safe_yaml.LARGEST // million} MB of text, {safe_yaml.DEPTH} levels, aliases that repeat "
        f"{safe_yaml.REPEATED:,} values, numbers of {safe_yaml.DIGITS} characters",
        f"{safe_json.LARGEST // million} MB, {safe_json.DEPTH} levels",
        f"{compressed.SMALL // million} MB, or a text {compressed.RATIO} times",
        f"{parquet_batches.MANY_ROWS:,} rows, or {parquet_batches.ROWS_PER_BYTE} rows per byte; "
        f"{parquet_batches.SMALL // million} MB of values, or {parquet_batches.RATIO} times",
        f"{archive.MOST:,} files, {archive.LARGEST // million} MB per file",
        f"| {from_hub.LARGEST_BUNDLE // 2**30} GB and {from_hub.MOST_FILES:,} files are fetched "
        f"(`{from_hub.VARIABLE}` in bytes)",
        f"| a model card | {card.LARGEST // million} MB |",
        f"{linear_regex.LONGEST:,} characters, {linear_regex.INSTRUCTIONS:,} instructions",
        f"| {MOST_STEPS:,} |",
        "; ".join(f"{int(size):,}" for size in sizes),
        f"| {WIDEST:,};",
        f"| {MOST_OUTPUTS:,} |",
    ):
        assert words in page, words
