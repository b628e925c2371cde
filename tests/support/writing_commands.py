"""Every command that writes, with inputs that give it real work: for `kills`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml

import weft
from tests.support.every_kind import rows_of_kind
from tests.support.report_runs import write_run_folder
from tests.support.tiny import TASKS, scramble
from tests.support.tiny_run import rows_of, sentence, write_rows, write_run
from weft.interop import EXPORTERS
from weft.training.optim.l0 import gates_of

LORA = {"use": "lora", "rank": 2}
GATED = {"use": "morris", "rank": 6, "bias_rank": 3, "l0": {"penalty": 1e-5, "steps": 4}}
LABELS = ("cat", "dog", "bird")


@dataclass(frozen=True)
class WritingCommand:
    """A command that writes.

    Attributes:
        name: for messages.
        words: the command line; HOME is the folder with inputs, all other paths are in the case's folder.
        copied: files and folders of HOME that are in the case's folder before it begins.
        again: the command line after a kill, by the case's folder; None: the same one.
        refuses_again: whether the command is refused with exit code 2 when its work is done.
        continues: whether a killed command leaves a state between old and new, which it continues from.
        content: what is compared of a folder's snapshot.
    """

    name: str
    words: str
    copied: tuple[str, ...] = ()
    again: Callable[[Path], str] | None = None
    refuses_again: bool = False
    continues: bool = False
    content: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda files: files

    def arguments(self, home: Path, folder: Path, again: bool = False) -> list[str]:
        """The command line."""
        words = self.again(folder) if again and self.again is not None else self.words
        return [word.replace("HOME", str(home)) for word in words.split()]


def _train(folder: Path) -> str:
    # without baselines, which are left out where they take too long
    resume = " --resume" if (folder / "out" / "run.yaml").exists() else ""
    return f"train HOME/run.yaml train.baselines=false --out out --device cpu{resume}"


def _weights(files: Mapping[str, str]) -> Mapping[str, str]:
    """Of a run: its weights and settings; metrics.json and the log have times."""
    kept = ("out/bundle/", "out/run.yaml")
    return {path: sha256 for path, sha256 in files.items() if path.startswith(kept)}


WRITING_COMMANDS = (
    WritingCommand("train", _train(Path("missing")), again=_train, continues=True, content=_weights),
    WritingCommand(
        "task add",
        "task add bundle HOME/task.yaml --out bundle --device cpu",
        ("bundle",),
        refuses_again=True,
    ),
    WritingCommand(
        "task add, a new bundle",
        "task add HOME/bundle HOME/task.yaml --out new/out --device cpu",
        refuses_again=True,
    ),
    WritingCommand(
        "task retrain", "task retrain bundle a HOME/again.yaml --fresh --out bundle --device cpu", ("bundle",)
    ),
    WritingCommand("task copy", "task copy HOME/bundle a bundle --as e", ("bundle",), refuses_again=True),
    WritingCommand("task remove", "task remove bundle b --out bundle", ("bundle",), refuses_again=True),
    WritingCommand("compact", "compact HOME/gated --out small"),
    WritingCommand("compact, in place of a bundle", "compact HOME/gated --out other", ("other",)),
    WritingCommand("assemble", "assemble HOME/bundle HOME/other --out gated", ("gated",)),
    WritingCommand(
        "assemble, merged", "assemble HOME/bundle HOME/other --merge ties --no-scores --out new/merged"
    ),
    WritingCommand(
        "assemble as morris", "assemble HOME/bundle HOME/other --as morris --rank 8 --out new/morris"
    ),
    WritingCommand("export", "export HOME/bundle --task a --to peft --out exported", ("exported",)),
    WritingCommand("export to hf", "export HOME/bundle --task a --to hf --out plain", ("plain",)),
    WritingCommand(
        "export to sentence-transformers",
        "export HOME/bundle --task b --to sentence-transformers --set output=logits --out sentences",
    ),
    WritingCommand("import", "import HOME/exported --out bundle", ("bundle",)),
    WritingCommand(
        "evaluate", "evaluate multi --tasks HOME/multi.yaml --tune-thresholds --device cpu", ("multi",)
    ),
    WritingCommand(
        "evaluate, a report",
        "evaluate multi --tasks HOME/multi.yaml --calibrate --report-to errors.json "
        "--predictions rows.parquet --device cpu",
        ("multi",),
        continues=True,
    ),
    WritingCommand(
        "submit",
        "submit HOME/glue --to glue --tasks HOME/glue.yaml --out glue.zip --device cpu",
        ("glue.zip",),
    ),
    WritingCommand(
        "push, a dry run",
        "push HOME/bundle anna/x --with-encoder --dry-run --out staged",
        refuses_again=True,
    ),
    WritingCommand("card", "card HOME/bundle --name anna/x --out page.html", ("page.html",)),
    WritingCommand("card, into the bundle", "card bundle --write", ("bundle",)),
    WritingCommand("report", "report HOME/run --out page.html", ("page.html",)),
    WritingCommand("new", "new HOME/data.csv --out run2.yaml", refuses_again=True),
    WritingCommand("new, in place of a file", "new HOME/data.csv --out task.yaml --force", ("task.yaml",)),
    WritingCommand(
        "predict", "predict HOME/bundle HOME/requests.jsonl --out data.csv --device cpu", ("data.csv",)
    ),
)


def write_home(folder: Path) -> Path:
    """Write the inputs of all commands into a new folder; returns it."""
    write_run(folder, steps=6, evaluate_every=2, checkpoint_every=2)
    encoder = folder / "encoder"

    def bundle(name: str, tasks: tuple[weft.Task, ...], method: dict = LORA, seed: int = 1) -> weft.Model:
        model = scramble(weft.Model(encoder, tasks, method, max_length=24), seed)
        with torch.no_grad():
            for number, gate in enumerate(gates_of(model)):
                alpha = gate.get_parameter("alpha")
                alpha.copy_(
                    torch.where(torch.arange(alpha.numel()).view_as(alpha) % 3 == number % 3, 10, -10)
                )
        model.save(folder / name)
        return model.eval()

    first = bundle("bundle", TASKS[:3])
    bundle("other", TASKS[3:], seed=2)
    bundle("gated", TASKS[:2], GATED, seed=3)
    EXPORTERS["peft"]().export(first, "b", folder / "exported")
    EXPORTERS["hf"]().export(first, "b", folder / "plain")
    write_run_folder(folder / "run")
    (folder / "page.html").write_text("an older page")
    _write_multi(folder)
    bundle("multi", tuple(weft.Task(name, "multilabel", labels=LABELS) for name in ("themes", "more")))
    _write_glue(folder)
    bundle("glue", (weft.Task("wnli", labels=("not_entailment", "entailment"), texts=("a", "b")),))
    (folder / "glue.zip").write_bytes(b"an earlier file")
    write_rows(folder / "new.jsonl", rows_of("cat", 30, 5))
    train = {"steps": 4, "batch_size": 8, "lr": 0.01}
    new = {"tasks": {"new": {"labels": ["no", "yes"], "train": str(folder / "new.jsonl")}}, "train": train}
    (folder / "task.yaml").write_text(yaml.safe_dump(new), encoding="utf-8")
    new = {"tasks": {"a": {"labels": ["no", "yes"], "train": str(folder / "new.jsonl")}}, "train": train}
    (folder / "again.yaml").write_text(yaml.safe_dump(new), encoding="utf-8")
    draw = random.Random(1)
    lines = [f"{sentence(draw)},{'yes' if number % 2 else 'no'}" for number in range(40)]
    (folder / "data.csv").write_text("\n".join(["text,label", *lines, ""]), encoding="utf-8")
    write_rows(folder / "requests.jsonl", [{"task": "a", "text": sentence(draw)} for _ in range(60)])
    return folder


def _write_multi(folder: Path) -> None:
    tasks = {}
    for seed, name in enumerate(("themes", "more")):
        file = write_rows(folder / f"{name}.jsonl", rows_of_kind("multilabel", 30, seed))
        files = {split: str(file) for split in ("train", "validation")}
        tasks[name] = {"kind": "multilabel", "labels": list(LABELS), **files}
    (folder / "multi.yaml").write_text(yaml.safe_dump({"tasks": tasks}), encoding="utf-8")


def _write_glue(folder: Path) -> None:
    draw = random.Random(2)
    rows = [{"a": sentence(draw), "b": sentence(draw), "idx": number} for number in range(146)]
    write_rows(folder / "wnli.test.jsonl", rows)
    write_rows(folder / "wnli.train.jsonl", [{**row, "label": row["idx"] % 2} for row in rows[:12]])
    files = {split: str(folder / "wnli.train.jsonl") for split in ("train", "validation")}
    settings = {"labels": ["not_entailment", "entailment"], "texts": ["a", "b"], "id": ["idx"]}
    task = {**settings, **files, "test": str(folder / "wnli.test.jsonl")}
    (folder / "glue.yaml").write_text(yaml.safe_dump({"tasks": {"wnli": task}}), encoding="utf-8")
