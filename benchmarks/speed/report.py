"""Print a run as tables on the terminal, and write them to docs/results/speed.md.

    python -m benchmarks.speed.report [FILE…] [--page [--anew]]

Without `--page` it prints what the files of benchmarks/out hold. With it, their pieces of work take the place
of those in docs/results/bench-DEVICE.json (all of it with `--anew`), the tables of each device are written
between that device's marks in docs/results/speed.md, and its plots are drawn. Where there is no such file,
the page is made of docs/results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.speed import must
from benchmarks.speed.machine import in_words
from benchmarks.speed.results import KEPT, OUT, Results, Work

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "results" / "speed.md"
PICTURES = DOCS / "pictures"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--page", action="store_true", help="write docs/results/speed.md and its plots")
    parser.add_argument(
        "--anew", action="store_true", help="replace the results of the page instead of adding to them"
    )
    args = parser.parse_args()
    files = args.files or sorted(OUT.glob("bench-*.json"))
    if not files and args.page:
        files = sorted(KEPT.glob("bench-*.json"))
    if not files:
        raise SystemExit(f"{OUT} holds no bench-*.json; type: make bench")
    for file in files:
        results = Results.read(file)
        if args.page:
            write_page(kept(results, KEPT, args.anew))
        else:
            show(results)


def kept(results: Results, folder: Path, anew: bool = False) -> Results:
    """Combine a run with the stored results of earlier runs on the same machine, and store the result.

    Args:
        results: of the run.
        folder: where it is kept.
        anew: whether what is there is thrown away.
    """
    file = folder / f"bench-{results.machine['device']}.json"
    known = None if anew or not file.is_file() else Results.read(file)
    if known is not None and known.machine != results.machine:
        told = f"{file} is of another machine: {in_words(known.machine)}; this is {in_words(results.machine)}"
        raise SystemExit(f"{told}; type: python -m benchmarks.speed.report --page --anew")
    together = results if known is None else known.updated(results)
    together.must = must.judged(together)
    together.write(file)
    return together


def show(results: Results) -> None:
    """Print all tables."""
    # a file or a pipe has no width
    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(in_words(results.machine), highlight=False)
    if results.ceiling:
        console.print(f"one large matrix product: {results.ceiling / 1e12:.3g} TFLOP/s", highlight=False)
    for work in results.works:
        table = Table(title=title(work), title_justify="left", title_style="bold")
        for number, column in enumerate(columns(work)):
            table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number < 2)
        for cells in body(work):
            table.add_row(*cells)
        console.print(table)
    if results.must:
        table = Table(title="to be shown", title_justify="left", title_style="bold")
        for column in ("claim", "target", "found", ""):
            table.add_column(column)
        for cells in claims(results):
            table.add_row(*cells)
        console.print(table)
    for left in results.skipped:
        console.print(f"left out: {left['variant']}: {left['why']}", highlight=False, markup=False)


def title(work: Work) -> str:
    """The title of a piece of work."""
    facts = ", ".join(f"{key} {value}" for key, value in work.facts.items() if key not in ("rows", "length"))
    return f"{work.name} ({facts})"


def columns(work: Work) -> tuple[str, ...]:
    """The column headings of a table."""
    compared = "cost" if work.shows == "cost" else "speed"
    more = ("padding",) if any("padding" in row for row in work.rows) else ()
    more += ("trained",) if any("trained" in row for row in work.rows) else ()
    return ("", "ms (quartiles)", f"{compared}, {work.basis} = 1", "peak MiB", *more)


def body(work: Work) -> Iterator[tuple[str, ...]]:
    """The rows of a table."""
    more = [key for key in ("padding", "trained") if any(key in row for row in work.rows)]
    for row in work.rows:
        time = number(row["ms"])
        if "low" in row:
            time += f" ({number(row['low'])} to {number(row['high'])})"
        ratio = f"{row['ratio']:.2f}x" if "ratio" in row else ""
        peak = "" if row.get("peak_mb") is None else f"{row['peak_mb']:,.0f}"
        extra = [f"{row[key]:,}" if key == "trained" else f"{row[key]:.0%}" for key in more if key in row]
        yield (row["variant"], time, ratio, peak, *extra)


def claims(results: Results) -> Iterator[tuple[str, ...]]:
    """The rows of the table of claims."""
    for claim in results.must:
        found = "" if claim["found"] is None else f"{claim['found']:.2f}x"
        ok = {True: "yes", False: "NO", None: "not measured"}[claim["ok"]]
        yield claim["claim"], claim["target"], found, ok


def number(ms: float) -> str:
    """Milliseconds with three digits."""
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def write_page(results: Results) -> None:
    """Put the tables between the device's marks in docs/results/speed.md, and draw its plots."""
    from benchmarks.speed.plots import draw

    kind = str(results.machine["device"])
    begin, end = f"<!-- figures: {kind} -->", f"<!-- end: {kind} -->"
    text = PAGE.read_text(encoding="utf-8")
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{PAGE} has no place for {kind}: expected the lines {begin} and {end}")
    lines = [f"Machine: {in_words(results.machine)}."]
    if results.ceiling:
        lines[0] += f" One large matrix product: {results.ceiling / 1e12:.3g} TFLOP/s."
    if results.must:
        lines += ["", *markdown(("to be shown", "target", "found", "held"), claims(results))]
    lines += [f"\n![{picture.stem}](../pictures/{picture.name})" for picture in draw(results, PICTURES)]
    for work in results.works:
        lines += ["", f"**{title(work)}**", "", *markdown(columns(work), body(work))]
    for left in results.skipped:
        lines += ["", f"Left out: {left['variant']}: {left['why']}."]
    PAGE.write_text(f"{head}{begin}\n" + "\n".join(lines) + f"\n{end}{tail}", encoding="utf-8")
    print(f"{PAGE}: tables of {kind} written")


def markdown(head: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> list[str]:
    """A Markdown table with right-aligned numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return lines + ["| " + " | ".join(str(cell) for cell in cells) + " |" for cells in rows]


if __name__ == "__main__":
    main()
