"""The command line of the fuzzers; `make fuzz` calls it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

from tests.fuzz.areas import AREAS
from tests.fuzz.runner import ANEW, Fuzzer, Numbered, Result, spread
from tests.fuzz.table import failures_of, table_of
from tests.support.everything import import_everything


def main() -> int:
    """Run the cases, print the table, and return 1 if a case failed."""
    options = _options()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import_everything("tests.fuzz.areas", "tests.support.tiny_run")
    builds = {area: build for area, (build, _) in AREAS.items()}
    fuzzer = Fuzzer(builds, options.folder, options.seed, anew=options.anew)
    fuzzer.prepare(rebuild=options.case is None)
    if options.case is not None:
        return _run_again(fuzzer, options)
    shutil.rmtree(fuzzer.folder / "failed", ignore_errors=True)
    cases = spread({area: AREAS[area][1] for area in options.area or AREAS}, options.cases)
    began = time.monotonic()
    results: list[Result] = []
    record = (fuzzer.folder / "results.jsonl").open("w", encoding="utf-8")
    for result in fuzzer.run_all(cases, options.jobs):
        results.append(result)
        record.write(json.dumps(result._asdict()) + "\n")
        if not result.right:
            print(
                f"{result.area} {result.number}: {result.kind}: {result.detail}\n    {result.command}",
                flush=True,
            )
        if len(results) % 500 == 0:
            wrong = sum(not result.right for result in results)
            print(f"{len(results):,} of {len(cases):,} cases, {wrong} wrong", file=sys.stderr, flush=True)
    record.close()
    minutes = (time.monotonic() - began) / 60
    failures = [result for result in results if not result.right]
    if failures:
        print(f"\n{failures_of(failures)}")
        print(
            f"\ntheir files: {fuzzer.folder / 'failed'}\n"
            "to run one again: python -m tests.fuzz --area AREA --case NUMBER"
        )
    print(f"\nseed {options.seed}, {minutes:.1f} minutes with {options.jobs} jobs\n{table_of(results)}")
    return int(bool(failures))


def _run_again(fuzzer: Fuzzer, options: argparse.Namespace) -> int:
    """Run one case and show everything about it."""
    (area,) = options.area
    result = fuzzer.run(Numbered(area, options.case), keep=True)
    name = f"{area.replace(' ', '_')}-{options.case}"
    folder = fuzzer.folder / ("cases" if result.right else "failed") / name
    print(f"cd {folder / 'work'}; {result.command}")
    for stream in ("stdout", "stderr"):
        print(f"--- {stream}\n{(folder / stream).read_bytes().decode('utf-8', 'backslashreplace')[:20_000]}")
    print(f"--- {result.kind} {result.detail} ({result.seconds:.2f} s)")
    return int(not result.right)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="number of cases of all areas together")
    parser.add_argument("--seed", type=int, default=1, help="seed of all cases")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="number of processes")
    parser.add_argument("--area", action="append", choices=AREAS, help="only this area; may be repeated")
    parser.add_argument("--case", type=int, help="run one case of one area again, and keep its files")
    parser.add_argument("--anew", type=int, default=ANEW, help="one of so many cases is run by a new Python")
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"), help="folder for all files")
    options = parser.parse_args()
    if options.case is not None and len(options.area or ()) != 1:
        parser.error("--case needs exactly one --area")
    return options


if __name__ == "__main__":
    sys.exit(main())
