"""The page of a grid: its results as one Markdown file for readers who know neither the grid nor weft.

It begins with what was found (first in the words of whoever made it, if there are some), then says what was
compared, and has one narrow table per question: averages, differences with verdicts, claims, scores of single
tasks, cost, and what a paper printed. It ends with what must not be concluded, and with the command that
makes it. Everything comes from the grid and its records, so that the same records make the same page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.experiments.call import Call
from weft.experiments.claims.evaluate import FEWEST_SEEDS, HELD
from weft.experiments.measure_tables import measure_tables
from weft.experiments.results import Results
from weft.experiments.tables import (
    again_table,
    averages_table,
    claims_table,
    contrasts_table,
    cost_table,
    groups_table,
    notes_of,
    published_table,
    tasks_table,
)
from weft.experiments.text_table import NONE, TextTable


def page(
    results: Sequence[Results] | Results,
    call: Call | None = None,
    web: str | None = None,
    words: str = "",
    title: str = "",
) -> str:
    """The page of a grid, or of several with a chapter for each.

    Args:
        results: the results.
        call: the command that made them; None: the page names none.
        web: the address of the web page of the same results; None: there is none.
        words: what begins the page, Markdown; see `weft.experiments.summary_text`.
        title: the title of the page; "": that of the grid.
    """
    several = [results] if isinstance(results, Results) else list(results)
    title = title or "; ".join(each.grid.title for each in several)
    link = (
        ""
        if web is None
        else (
            f"[{web}]({web}) is a web page with the tables and their pictures: download it, and open it "
            "in a browser."
        )
    )
    if len(several) == 1:
        parts = [f"# {title}", words, *opening(several[0]), link, *tables(several[0])]
    else:
        parts = [f"# {title}", words, link]
        for each in several:
            parts += [f"## {each.grid.title}", *opening(each), *tables(each, level=3)]
            parts.append(_listed("### Notes", own_notes(each, several)))
    parts += [cautions(several), how_to_read(several)]
    if call is not None:
        parts += [
            "## Repeat it\n```\n" + "\n".join(call.with_again(several).lines()) + "\n```",
            repeated(call, several),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def opening(results: Results) -> list[str]:
    """What was found, and how it was measured."""
    return [summary(results), " ".join(results.grid.about.split()), setup(results)]


def tables(results: Results, level: int = 2) -> list[str]:
    """All tables of a grid.

    Args:
        results: the results.
        level: that of their headings.
    """
    grid, counts = results.grid, counts_only(results)
    shown: list[TextTable] = []
    if not counts:
        shown.append(averages_table(results))
    if results.statistics.get("contrasts") and not counts:
        shown.append(contrasts_table(results))
    if results.claims:
        shown.append(claims_table(results))
    if grid.groups and not counts:
        shown.append(groups_table(results))
    if not counts:
        shown.append(tasks_table(results))
    shown += measure_tables(results)
    if grid.published.get("rows"):
        shown.append(published_table(results))
    if results.again:
        shown.append(again_table(results))
    return [section(table, level) for table in (*shown, cost_table(results))]


def counts_only(results: Results) -> bool:
    """Whether nothing was trained: the grid counts parameters, and its scores are those of random heads."""
    return results.setup.get("steps") == [0]


def summary(results: Results) -> str:
    """The first paragraph: the best variants, and how many claims hold."""
    if counts_only(results):
        return f"**Nothing was trained: the tables count parameters.**{_claims(results)}"
    estimates = results.statistics.get("variants", {})
    name = results.statistics.get("average", "average")
    averages = {variant: of[name] for variant, of in estimates.items() if of.get(name)}
    if not results.runs:
        return "No run has finished yet."
    if not averages:
        return "No variant has all scores of the average yet."
    # of a variant with fewer seeds nothing is decided: it is not called the best
    enough = {variant: of for variant, of in averages.items() if len(of["scores"]) >= FEWEST_SEEDS}
    averages = enough or averages
    best = max(averages, key=lambda variant: averages[variant]["mean"])
    worst = min(averages, key=lambda variant: averages[variant]["mean"])
    text = f"**Unfinished: {_runs(results.missing)} not been made yet.** " if results.missing else ""
    noun = f"score of {name}" if name in results.statistics["tasks"] else "average"
    text += f"**The highest {noun} is that of {best}, {_percent(averages[best])}"
    text += f"; the lowest is that of {worst}, {_percent(averages[worst])}.**" if worst != best else ".**"
    decided = [c for c in results.statistics["contrasts"] if c["verdict"] in ("better", "worse")]
    count = len(results.statistics["contrasts"])
    if count:
        each = [f"{c['variant']} is {c['verdict']} than {c['baseline']}" for c in decided]
        found = f": {'; '.join(each)}." if each else "."
        if count == 1:
            text += f" The one difference is {'decided' if each else 'undecided'}{found}"
        else:
            text += f" Of {count} differences {_some(len(decided))} decided{found}"
    return text + _claims(results)


def _claims(results: Results) -> str:
    if not results.claims:
        return ""
    held = sum(claim.verdict == HELD for claim in results.claims)
    return f" Of {len(results.claims)} claims {_some(held)} held."


def setup(results: Results) -> str:
    """What was trained, in one sentence, by the settings of the first record."""
    settings = results.setup
    if not settings:
        return ""
    rows = settings["rows"]
    if counts_only(results):
        return (
            f"Encoder: {' or '.join(settings['encoders'])}. {_times(len(rows), 'task')}: {', '.join(rows)}."
        )
    tasks = ", ".join(f"{task} {count:,}" for task, count in rows.items())
    lengths = " or ".join(f"{steps:,}" for steps in settings["steps"])
    sizes = " or ".join(map(str, settings["batch_sizes"]))
    seeds = [len(facts["seeds"]) for facts in results.facts.values()]
    count = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
    return (
        f"Encoder: {' or '.join(settings['encoders'])}. {_times(len(rows), 'task')}, {lengths} steps "
        f"of {sizes} examples, {count} seed{'' if count == '1' else 's'} per variant. "
        f"Scores are on the {results.grid.report} rows ({tasks})."
    )


def cautions(results: Sequence[Results]) -> str:
    """What must not be concluded."""
    listed = [
        *dict.fromkeys(caution for each in results for caution in each.grid.cautions),
        "A verdict is about these tasks, this encoder and these settings. `undecided` does not mean equal: "
        "see the column *could show*.",
        "Scores of single tasks have no verdicts: of twenty tasks one differs by chance.",
        "Seconds are of runs that may have shared a machine: an order of magnitude, no benchmark.",
    ]
    return "## What must not be concluded\n" + "\n".join(f"- {text}" for text in listed)


def how_to_read(results: Sequence[Results]) -> str:
    """The notes of the tables; of several grids those that hold for all of them, see `own_notes`."""
    first = next((each for each in results if not counts_only(each)), results[0])
    notes = [note for note in _notes(first) if note not in own_notes(first, results)]
    return _listed("## How to read the tables", notes)


def own_notes(results: Results, every: Sequence[Results]) -> list[str]:
    """The notes that hold for one of several grids and not for all: they are in its chapter.

    Args:
        results: the grid.
        every: all grids of the page.
    """
    if len(every) == 1:
        return []
    # what is said of runs that were trained again counts those of one grid
    others = [_notes(replace(each, again=())) for each in every if not counts_only(each)]
    return [note for note in _notes(results) if any(note not in notes for notes in others)]


def _notes(results: Results) -> list[str]:
    """The notes of a grid's tables, without those about scores if it only counts."""
    about_scores = notes_of(replace(results, facts={}, again=(), missing=0)) if counts_only(results) else ()
    return [note for note in notes_of(results) if note not in about_scores]


def _listed(heading: str, notes: Sequence[str]) -> str:
    return f"{heading}\n" + "\n".join(f"- {_sentence(note)}" for note in notes) if notes else ""


def repeated(call: Call, results: Sequence[Results]) -> str:
    """What the commands need, and where the runs were made."""
    text = "The first command trains all runs"
    text += "; DATA is the folder of the data." if "DATA" in call.lines()[0] else "."
    if call.records is not None:
        text += " The second makes this page from the records alone, without data, encoder or GPU."
    machines = sorted(
        {machine for each in results for facts in each.facts.values() for machine in facts["machines"]}
    )
    versions = list(dict.fromkeys(text for each in results for text in each.setup.get("versions", ())))
    return f"{text} Trained on: {', '.join(machines) or NONE} ({'; '.join(versions) or NONE})."


def section(table: TextTable, level: int = 2) -> str:
    """A table with its title, a heading of this level."""
    heading = f"{'#' * level} {table.title[:1].upper()}{table.title[1:]}"
    text = "\n".join([heading, *markdown_lines(table)])
    return f"{text}\n\n{table.note}" if table.note else text


def markdown_lines(table: TextTable) -> Iterable[str]:
    """The lines of a table in Markdown; columns of numbers are aligned to the right."""
    numeric = [_is_numeric([row[number] for row in table.rows]) for number in range(len(table.columns))]
    rules = tuple("--:" if right else "---" for right in numeric)
    return [f"| {' | '.join(map(_escaped, line))} |" for line in (table.columns, rules, *table.rows)]


def _is_numeric(cells: Sequence[str]) -> bool:
    return bool(cells) and all(cell == NONE or cell[:1] in "+-−0123456789" for cell in cells)


def _percent(estimate: Mapping[str, Any]) -> str:
    error = "" if estimate["se"] is None else f" ± {100 * estimate['se']:.1f}"
    return f"{100 * estimate['mean']:.1f}{error}"


def _some(count: int) -> str:
    return "1 is" if count == 1 else f"{count or 'none'} are"


def _runs(count: int) -> str:
    return "1 run has" if count == 1 else f"{count} runs have"


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
