"""Write what this version of weft writes, for the tests of later ones: bundles, and a run broken off.

    PYTHONPATH=src:. python tests/released/make.py

makes the folder VERSION beside this file. It is made once, by the code of the release, and never again.
"""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
import yaml

import weft
from weft import cli

try:
    from tests.support.every_kind import NAMES, SETTINGS, rows_of_kind
    from tests.support.tiny import CONFIGS, scramble
    from tests.support.tiny_run import breaking_off, save_encoder, write_rows
except ModuleNotFoundError:  # 0.1.0 had them here
    from tests.every_kind import NAMES, SETTINGS, rows_of_kind
    from tests.tiny import CONFIGS, scramble
    from tests.tiny_run import breaking_off, save_encoder, write_rows

NOWHERE = "/nowhere"
"""What stands for the run's folder in files that name it; a test puts its own there."""

SIZES = {
    "vocab_size": 24,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}
TRAIN = {
    "steps": 12,
    "batch_size": 24,
    "max_length": 24,
    "lr": 0.001,
    "seed": 3,
    "sampler": "uniform",
    "mixed": True,
    "task_weights": "learned",
    "evaluate_every": 3,
    "best": "regress",
    "checkpoint_every": 5,
    "log_every": 2,
}
BROKEN_AT = 7
"""The step that the broken run never did: behind a checkpoint, an evaluation and lines of the log."""

STRAIGHT = "lora"
FEW = ("classify", "two", "tag", "span")
MORE = ("classify", "multilabel", "apart", "two", "marked", "choose", "rank")
GROUPS = {"texts": ["classify", "multilabel"], "others": ["apart", "two"]}
METHODS: dict[str, tuple[Any, tuple[str, ...]]] = {
    STRAIGHT: ({"use": "lora", "rank": 2}, NAMES),
    "composed": ([{"use": "lora", "rank": 2, "share": GROUPS}, "bitfit"], MORE),
    "morris": ({"use": "morris", "rank": 3, "bias_rank": 2}, FEW),
    "pals": ({"use": "pals", "d_s": 8, "heads": 2}, FEW),
}
"""The bundles: the method, and the tasks that it is trained on."""


def rows_of(name: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Rows of a task; none for a cosine of 1, since rounding alone would put such pairs in their order."""
    rows = rows_of_kind(name, 4 * count, seed)
    return [row for row in rows if name != "cosine" or row["a"] != row["b"]][:count]


def write_run(folder: Path, method: Any, names: tuple[str, ...]) -> Path:
    """A run file with its data; all paths in it are relative."""
    tasks = {}
    for name in names:
        files = {}
        for split, count, seed in (("train", 12, 1), ("validation", 8, 2)):
            files[split] = f"data/{name}.{split}.jsonl"
            write_rows(folder / files[split], rows_of(name, count, seed))
        tasks[name] = json.loads(json.dumps(SETTINGS[name])) | files  # tuples become lists, as YAML has them
    train = TRAIN | ({} if TRAIN["best"] in names else {"best": "average"})
    run = {"encoder": "encoder", "method": method, "heads": {"pool": "cls"}, "tasks": tasks, "train": train}
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(run, sort_keys=False), encoding="utf-8")
    return path


def called(*arguments: object, code: int = 0) -> str:
    """What a command prints."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        found = cli.run([str(argument) for argument in arguments])
    assert found == code, err.getvalue()
    return out.getvalue()


def without_place(folder: Path, place: Path) -> None:
    """Put `NOWHERE` for a place in all files of a folder that are text."""
    for path in folder.rglob("*"):
        if path.suffix in (".json", ".yaml"):
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(str(place), NOWHERE), encoding="utf-8")


def check_best(log: Path) -> None:
    """The best evaluation must lie behind the break and be so by far: else rounding would choose another."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    found = [line for line in lines if line["event"] == "evaluation"]
    scores = sorted((next(iter(line["tasks"][TRAIN["best"]].values())), line["step"]) for line in found)
    assert scores[-1][1] > BROKEN_AT
    assert scores[-1][0] - scores[-2][0] > 0.01


def answers(bundle: Path, run: Path) -> dict[str, Any]:
    """What a bundle answers and how it is judged."""
    tasks = json.loads((bundle / "bundle.json").read_text(encoding="utf-8"))["tasks"]
    requests = [(name, row) for name in tasks for row in rows_of(name, 2, 3)]
    model = weft.load(bundle, device="cpu")
    found = model.predict(requests)
    ids = [2, *range(5, 16), 3]
    with torch.no_grad():
        hidden = model(torch.tensor([ids] * len(tasks)), task=torch.arange(len(tasks))).hidden[:, 0]
    told = called("evaluate", bundle, "--tasks", run, "--device", "cpu", "--json")
    return {
        "evaluation": json.loads(told),
        "requests": requests,
        "answers": json.loads(json.dumps(found)),
        "input_ids": ids,
        "hidden": hidden.tolist(),
    }


def make(target: Path) -> None:
    """Write all of it into a folder that is not there yet."""
    target.mkdir(parents=True)
    CONFIGS["bert"] = ("bert", CONFIGS["bert"][1] | SIZES)
    expected: dict[str, Any] = {
        "weft": weft.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "python": platform.python_version(),
        "processor": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "straight": STRAIGHT,
        "broken_at": BROKEN_AT,
        "bundles": {},
    }
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary).resolve()
        os.environ["WEFT_CACHE"] = str(place / "cache")
        work = place / "work"
        save_encoder(work / "encoder")
        run = write_run(work, *METHODS[STRAIGHT])
        with breaking_off(BROKEN_AT):
            called("train", run, "--out", work / "out", "--device", "cpu", code=130)
        shutil.copytree(work, target / "broken")
        for name, (method, names) in METHODS.items():
            own = write_run(work, method, names)
            called("train", own, "--out", place / name, "--device", "cpu", "--with-encoder")
            if name == STRAIGHT:
                check_best(place / name / "log.jsonl")
                shutil.copytree(place / name / "bundle", target / "bundle" / name)
            else:  # far from the start: what is read into a wrong place must show
                model = scramble(weft.load(place / name, device="cpu"), seed=3)
                model.save(target / "bundle" / name, with_encoder=True)
        without_place(target, work)
        for name in METHODS:
            expected["bundles"][name] = answers(target / "bundle" / name, target / "broken" / "run.yaml")
        (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
        for path in target.rglob("*"):
            assert path.is_dir() or str(place).encode() not in path.read_bytes(), path


if __name__ == "__main__":
    torch.set_num_threads(1)
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / weft.__version__)
