"""Damage to bundles, run folders and token caches, and what becomes of it.

    PYTHONPATH=src:. python -m tests.support.damaged --bundles 100 --runs 60 --flips 200

Every case is a copy with one damaged file (in some run folders two), read by a command as a user would. It is

- noticed: the command ends with exit code 2 and a message, never with a traceback;
- repaired: the command works, says so, and its result has the same bits; or
- harmless: the command works, and its result has the same bits. The damage is where nothing is read (an older
  checkpoint, the log), or where it changes no value (`1e-5` and `1E-5` in JSON are one number).

Anything else is a failure, and so is a run folder with a single damaged file that does not end as if it had
none: a copy of everything in it exists.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import weft
from tests.support.damage import (
    FAILURES,
    HARMLESS,
    KINDS,
    LOST,
    NOTICED,
    REPAIRED,
    TRACEBACK,
    WRONG,
    Case,
    called,
    contents,
    damage,
    files_of,
    outcome_of,
)
from tests.support.tiny import TASKS, scramble
from tests.support.tiny_run import breaking_off, metrics_of, save_encoder, write_run
from weft.config import load_run
from weft.data import load_split, tokenize
from weft.encoder.load import load_tokenizer


class Bundles:
    """Two bundles of four tasks, one with its encoder, and requests to all tasks.

    Args:
        folder: an empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outside = save_encoder(folder / "encoder")
        model = scramble(weft.Model(self.outside, TASKS, ["lora", {"use": "bitfit", "share": "all"}]))
        self.bundles = [model.save(folder / "named"), model.save(folder / "whole", with_encoder=True)]
        self.texts = ("the cat sees a dog", "not very old")
        self.expected = [self.answers(bundle, [t.name for t in TASKS])[1] for bundle in self.bundles]
        assert all(self.expected)

    def answers(self, bundle: Path, tasks: Sequence[str]) -> tuple[int, str, str]:
        flags = [flag for text in self.texts for flag in ("--text", text)]
        digits = ("--digits", "17", "--device", "cpu")
        return called("predict", bundle, *flags, "--tasks", ",".join(tasks), *digits)

    def case(self, kind: str | None, draw: random.Random) -> Case:
        """Damage a file of a copy of a bundle, or of its encoder, and predict."""
        number = draw.randrange(2)
        work = self.folder / "work"
        shutil.copytree(self.bundles[number], work)
        places = files_of(work)
        if number == 0:
            places += files_of(self.outside)
        path = draw.choice(places)
        kind = kind or draw.choice(list(KINDS))
        before = path.read_bytes()
        try:
            changed = damage(path, kind, draw)
            code, out, err = self.answers(work, [task.name for task in TASKS])
            outcome = outcome_of(code, err, out == self.expected[number])
            if outcome == NOTICED and path.name not in err and work.name not in err:
                outcome = TRACEBACK  # a message that names nothing
            if outcome == NOTICED and path.parent.name == "tasks":
                outcome = self._others(work, path.stem, number) or outcome
            place = path.relative_to(self.folder).as_posix()
            return Case(place, kind, outcome if changed else HARMLESS, err if outcome in FAILURES else "")
        finally:
            path.write_bytes(before)
            shutil.rmtree(work)

    def _others(self, work: Path, task: str, number: int) -> str | None:
        """Remove the damaged task: the others must answer as before."""
        rest, names = self.folder / "rest", [t.name for t in TASKS if t.name != task]
        code, _, _ = called("task", "remove", work, task, "--out", rest)
        try:
            if code != 0:
                return LOST
            alone = self.answers(rest, names)
            return None if alone[:2] == self.answers(self.bundles[number], names)[:2] else WRONG
        finally:
            shutil.rmtree(rest, ignore_errors=True)


class Runs:
    """A run that was broken off behind its third checkpoint, and one that was not.

    Args:
        folder: an empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_file = write_run(folder, steps=14)
        self.flags = ("--device", "cpu")
        assert called("train", self.run_file, "--out", folder / "straight", *self.flags)[0] == 0
        with breaking_off(12):
            assert called("train", self.run_file, "--out", folder / "broken", *self.flags)[0] == 130
        self.expected = self.result(folder / "straight")
        steps = sorted(path.name for path in (folder / "broken" / "checkpoints").glob("step-*"))
        assert steps == ["step-00000009", "step-00000012"]

    def result(self, run: Path) -> dict[str, bytes]:
        """The bundle and the metrics."""
        metrics = json.dumps(metrics_of(run)) if (run / "metrics.json").is_file() else ""
        return {**contents(run / "bundle"), "metrics.json": metrics.encode()}

    def case(self, kind: str | None, draw: random.Random, files: int = 1, checkpoint: bool = False) -> Case:
        """Damage files of a copy of the run that was broken off, and resume it."""
        work = self.folder / "work"
        shutil.copytree(self.folder / "broken", work)
        try:
            places = files_of(work / "checkpoints" if checkpoint else work)
            chosen = draw.sample(places, files)
            kinds = [kind or draw.choice(list(KINDS)) for _ in chosen]
            changed = [damage(path, how, draw) for path, how in zip(chosen, kinds, strict=True)]
            code, _, err = called("train", self.run_file, "--out", work, "--resume", *self.flags)
            outcome = outcome_of(code, err, code != 0 or self.result(work) == self.expected)
            if files == 1 and outcome == NOTICED:
                outcome = LOST
            place = ", ".join(path.relative_to(work).as_posix() for path in chosen)
            told = err if outcome in FAILURES else ""
            return Case(place, ", ".join(kinds), outcome if any(changed) else HARMLESS, told)
        finally:
            shutil.rmtree(work)


class Caches:
    """The token cache of a pair task.

    Args:
        folder: an empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        task = next(task for task in load_run(write_run(folder)).tasks if task.name == "same")
        self.split, self.tokenizer = load_split(task, "train"), load_tokenizer(folder / "encoder")
        self.expected = self.arrays()

    def arrays(self) -> list[bytes | None]:
        tokens = tokenize(self.split, self.tokenizer, 24, self.folder / "cache")
        values = [tokens.flat(name) for name in ("ids", "types", "marks")]
        values += [tokens.offsets, tokens.full_lengths, tokens.lengths]
        return [None if value is None else value.tobytes() for value in values]

    def case(self, kind: str | None, draw: random.Random) -> Case:
        """Damage a file of the cache and tokenize."""
        (entry,) = (self.folder / "cache" / "tokens").iterdir()
        path, kind = draw.choice(files_of(entry)), kind or draw.choice(list(KINDS))
        identity = entry.stat().st_ino
        changed = damage(path, kind, draw)
        try:
            same = self.arrays() == self.expected
        except Exception as wrong:
            return Case(path.name, kind, TRACEBACK, repr(wrong))
        rebuilt = entry.stat().st_ino != identity
        outcome = WRONG if not same else REPAIRED if rebuilt else HARMLESS
        return Case(path.name, kind, outcome if changed else HARMLESS)


@contextmanager
def token_cache(folder: Path) -> Iterator[None]:
    """Inside, commands use a token cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(folder))
        yield


def damaged_bundles(folder: Path, count: int, seed: int = 0) -> list[Case]:
    """So many bundles with a damaged file each."""
    world, draw = Bundles(folder), random.Random(f"bundles {seed}")
    return [world.case(None, draw) for _ in range(count)]


def damaged_runs(folder: Path, count: int, seed: int = 0) -> list[Case]:
    """So many run folders; every fourth has two damaged files."""
    draw = random.Random(f"runs {seed}")
    with token_cache(folder / "cache"):
        world = Runs(folder)
        return [world.case(None, draw, 2 if number % 4 == 3 else 1) for number in range(count)]


def flipped_bits(folder: Path, count: int, seed: int = 0) -> dict[str, list[Case]]:
    """So many flipped bits: in bundles and their encoders, in checkpoints and in token caches, in turn."""
    draw = random.Random(f"flips {seed}")
    cases: dict[str, list[Case]] = {"bundles": [], "checkpoints": [], "caches": []}
    with token_cache(folder / "cache"):
        bundles, runs, caches = Bundles(folder / "b"), Runs(folder / "r"), Caches(folder / "c")
        for number in range(count):
            area = list(cases)[number % 3]
            if area == "bundles":
                cases[area].append(bundles.case("bit", draw))
            elif area == "checkpoints":
                cases[area].append(runs.case("bit", draw, checkpoint=True))
            else:
                cases[area].append(caches.case("bit", draw))
    return cases


def damaged_caches(folder: Path, count: int, seed: int = 0) -> list[Case]:
    """So many token caches with a damaged file each."""
    world, draw = Caches(folder), random.Random(f"caches {seed}")
    return [world.case(None, draw) for _ in range(count)]


def counted(cases: Sequence[Case]) -> Counter[str]:
    """How often each outcome occurred."""
    return Counter(case.outcome for case in cases)


def failures(cases: Sequence[Case]) -> list[Case]:
    """The cases that must not be."""
    return [case for case in cases if case.outcome in FAILURES]


def main() -> int:
    """Run so many cases of each kind and print the counts; the exit code is 1 if there is a failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("bundles", "runs", "caches", "flips"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    makers = {"bundles": damaged_bundles, "runs": damaged_runs, "caches": damaged_caches}
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        results: dict[str, list[Case]] = {}
        for name, maker in makers.items():
            if number := getattr(wanted, name):
                folder = Path(temporary) / name
                folder.mkdir()
                results[f"damaged {name}"] = maker(folder, number, wanted.seed)
        if wanted.flips:
            folder = Path(temporary) / "flips"
            folder.mkdir()
            for area, cases in flipped_bits(folder, wanted.flips, wanted.seed).items():
                results[f"flipped bits in {area}"] = cases
    for name, cases in results.items():
        print(f"{name}: {len(cases)}; " + ", ".join(f"{n} {what}" for what, n in counted(cases).items()))
        for case in cases:
            if case.outcome == HARMLESS:
                print(f"  harmless: {case.kind} in {case.place}")
        for case in failures(cases):
            wrong += 1
            print(f"  {case.outcome}: {case.kind} in {case.place}\n{case.told}")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
