"""Folders with code in them that must not run: each piece of code would write a file."""

from __future__ import annotations

import builtins
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

CLASSES = {
    "AutoConfig": "EvilConfig",
    "AutoModel": "EvilModel",
    "AutoTokenizer": "EvilTokenizer",
}


class Trace:
    """The file that planted code would write.

    Args:
        folder: an empty folder of the test.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "code-has-run"

    def assert_clean(self) -> None:
        """No planted code has run."""
        assert not self.file.exists(), self.file.read_text(encoding="utf-8")

    def source(self) -> str:
        """A Python module that writes the file when it is imported."""
        return (
            f"from pathlib import Path\nPath({str(self.file)!r}).write_text(__name__)\n"
            "from transformers import BertConfig, BertModel, BertTokenizerFast\n"
            "class EvilConfig(BertConfig): model_type = 'evil'\n"
            "class EvilModel(BertModel): config_class = EvilConfig\n"
            "class EvilTokenizer(BertTokenizerFast): pass\n"
        )

    def pickle(self) -> Any:
        """An object whose pickle writes the file when it is unpickled."""
        return _Writes(str(self.file))


class _Writes:
    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return (exec, (f"open({self.file!r}, 'w').write('pickle')",))


def change(path: Path, **values: Any) -> None:
    """Set keys of a JSON file, which is made if there is none; None removes a key."""
    contents = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    contents = {key: value for key, value in {**contents, **values}.items() if value is not None}
    path.write_text(json.dumps(contents), encoding="utf-8")


def forget_checksums(bundle: Path) -> Path:
    """Make a bundle one that records no checksums, as a stranger can: the checks behind them are tested."""
    path = bundle / "bundle.json"
    contents = json.loads(path.read_text(encoding="utf-8"))
    contents = {key: value for key, value in contents.items() if key not in ("files", "sha256")}
    contents["encoder"].pop("files", None)
    path.write_text(json.dumps(contents), encoding="utf-8")
    return bundle


def plant_code(folder: Path, trace: Trace, *, native: bool = False) -> Path:
    """Give an encoder's folder code of its own, as repositories of the hub do.

    Args:
        folder: the folder of an encoder with a tokenizer.
        trace: what the code writes.
        native: whether the configuration still names a family that transformers has.
    """
    (folder / "evil.py").write_text(trace.source(), encoding="utf-8")
    code = {name: f"evil.{kind}" for name, kind in CLASSES.items() if name != "AutoTokenizer"}
    change(folder / "config.json", auto_map=code, **({} if native else {"model_type": "evil"}))
    plant_tokenizer(folder, trace)
    return folder


def plant_tokenizer(folder: Path, trace: Trace) -> Path:
    """Give a tokenizer code of its own, under a class that transformers does not have."""
    (folder / "evil.py").write_text(trace.source(), encoding="utf-8")
    change(
        folder / "tokenizer_config.json",
        auto_map={"AutoTokenizer": ["evil.EvilTokenizer", "evil.EvilTokenizer"]},
        tokenizer_class="EvilTokenizer",
    )
    return folder


def plant_pickle(
    path: Path, trace: Trace, tensors: dict[str, Any] | None = None, plain: bool = False
) -> Path:
    """Write a file of weights that also holds code.

    Args:
        path: the file.
        trace: what the code writes.
        tensors: the tensors beside it.
        plain: write a bare pickle, and not an archive as torch does.
    """
    contents = {**(tensors or {}), "evil": trace.pickle()}
    if plain:
        path.write_bytes(pickle.dumps(contents))
    else:
        torch.save(contents, path)
    return path


def trace_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """What planted code would write; a question whether it should run fails the test.

    Args:
        tmp_path: the test's folder.
        monkeypatch: the test's.
    """

    def asked(prompt: str = "") -> str:
        raise AssertionError(f"asked on the terminal: {prompt}")

    monkeypatch.setattr(builtins, "input", asked)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    return Trace(tmp_path)
