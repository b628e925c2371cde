"""Tables of results: the same text for the terminal, Markdown and CSV, from the same numbers as the JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from weft.experiments.again import devices, in_points, judgement
from weft.experiments.claims.evaluate import VERDICTS
from weft.experiments.results import Results
from weft.experiments.text_table import NONE, TextTable


def tables_of(results: Results) -> list[TextTable]:
    """The tables of a grid for a terminal: scores, contrasts, and what a paper printed."""
    tables = [scores_table(results)]
    if results.statistics.get("contrasts"):
        tables.append(contrasts_table(results))
    if results.grid.published.get("rows"):
        tables.append(published_table(results))
    if results.again:
        tables.append(again_table(results))
    return tables


def notes_of(results: Results) -> list[str]:
    """What a reader of the tables must know."""
    notes = list(results.statistics.get("notes", ()))
    if results.statistics:
        notes.insert(
            0,
            f"scores in percent on the {results.grid.report} rows, mean over seeds ± standard error; 'from "
            "seeds' is the share of its square that comes from seeds, the rest comes from the rows",
        )
        notes.insert(1, average_in_words(results.statistics))
    if results.statistics.get("contrasts"):
        notes.insert(
            2,
            "verdicts are by the 95 % interval and a p-value with Holm's correction; 'could show' is the "
            "smallest difference, in points, that this grid would probably have shown",
        )
    edges = [f"{name} ({', '.join(f['edges'])})" for name, f in results.facts.items() if f["edges"]]
    if edges:
        notes.append(f"* chosen at the edge of its range, a better value may lie beyond: {'; '.join(edges)}")
    if unlearned := {name: f["not_learned"] for name, f in results.facts.items() if f.get("not_learned")}:
        listed = "; ".join(f"{name} ({', '.join(tasks)})" for name, tasks in unlearned.items())
        notes.append(
            f"not better than the most frequent answer, which suggests that a task is not learned: {listed}"
        )
    for name, facts in results.facts.items():
        for seed, reason in facts["failed"].items():
            notes.append(f"{name}, seed {seed} failed: {reason.splitlines()[0]}")
    for measure in results.grid.measures:
        reasons = [
            of_run[measure]
            for facts in results.facts.values()
            for of_run in facts.get("not_measured", {}).values()
            if measure in of_run
        ]
        if reasons:
            notes.append(
                f"{measure} could not be measured of {len(reasons)} run{'s' * (len(reasons) > 1)} "
                f"({reasons[0].splitlines()[0]}); to measure it again, delete their records"
            )
    if results.again:
        notes += judgement([run.to_dict() for run in results.again])
        for run in results.again:
            if run.failed:
                notes.append(f"{run.run} failed when it was trained again: {run.failed.splitlines()[0]}")
    if results.missing:
        notes.append(f"{results.missing} runs have not been made yet")
    return notes


def scores_table(results: Results) -> TextTable:
    """One row per variant: the score of each task, and the average."""
    statistics = results.statistics
    average = statistics.get("average", "average")
    tasks = [task for task in statistics.get("tasks", ()) if task != average]
    tuned = [axis.key for axis in results.grid.tune.over] if results.grid.tune else []
    columns = ["variant", "seeds", *tasks, average, "from seeds", *tuned, "trained", "seconds"]
    rows = []
    for name, facts in results.facts.items():
        estimates = statistics.get("variants", {}).get(name, {})
        of_average = estimates.get(average)
        share = None if of_average is None else of_average["seed_share"]
        rows.append(
            (
                name,
                str(len(facts["seeds"])),
                *(score(estimates.get(task)) for task in tasks),
                score(of_average),
                NONE if share is None else f"{100 * share:.0f} %",
                *(chosen(facts, key) for key in tuned),
                trained(facts),
                NONE if facts["seconds"] is None else f"{facts['seconds']:.0f}",
            )
        )
    return TextTable(results.grid.title, tuple(columns), tuple(rows))


def averages_table(results: Results) -> TextTable:
    """One row per variant: its average, and where the uncertainty comes from.

    If verdicts are about the score of a task, variants without it are left out: others start from them.
    """
    average = results.statistics.get("average", "average")
    of_task = average in results.statistics.get("tasks", ())
    tuned = [axis.key for axis in results.grid.tune.over] if results.grid.tune else []
    rows = []
    for name, facts in results.facts.items():
        estimate = results.statistics.get("variants", {}).get(name, {}).get(average)
        if of_task and estimate is None and facts["seeds"]:
            continue
        share = None if estimate is None else estimate["seed_share"]
        from_seeds = NONE if share is None else f"{100 * share:.0f} %"
        settings = [chosen(facts, key) for key in tuned]
        rows.append((name, str(len(facts["seeds"])), score(estimate), from_seeds, *settings))
    columns = ("variant", "seeds", f"{average}, %", "from seeds", *tuned)
    return TextTable(f"scores of {average}" if of_task else "average scores", columns, tuple(rows))


def average_in_words(statistics: Mapping[str, Any]) -> str:
    """What the average is the mean of.

    Args:
        statistics: the statistics of a comparison, which name it.
    """
    from weft.evaluation.averages import AVERAGES

    name = statistics.get("average", "average")
    if name in statistics.get("tasks", ()):
        return f"verdicts are about the score of {name}"
    if name not in AVERAGES:
        return "the average is the mean of the tasks' scores"
    return f"the average, {name}, is the mean of {', '.join(part.name for part in AVERAGES[name])}"


def tasks_table(results: Results) -> TextTable:
    """One row per variant: the score of each task, under the name of its metric."""
    tasks = list(results.statistics.get("tasks", ()))
    columns = tuple(f"{task}, {results.metrics[task]}" if task in results.metrics else task for task in tasks)
    estimates = results.statistics.get("variants", {})
    rows = tuple(
        (name, *(score(estimates.get(name, {}).get(task)) for task in tasks)) for name in results.facts
    )
    return TextTable("scores of each task, in percent", ("variant", *columns), rows)


def groups_table(results: Results) -> TextTable:
    """One row per variant: the average of each group of tasks; a title has the number of tasks that count."""
    names = list(results.grid.groups)
    sizes = dict.fromkeys(names, 0)
    for facts in results.facts.values():
        sizes |= {name: len(group["tasks"]) for name, group in facts["groups"].items()}
    rows = tuple(
        (variant, *(score(facts["groups"].get(name)) for name in names))
        for variant, facts in results.facts.items()
    )
    columns = (f"{name} ({sizes[name]} task{'' if sizes[name] == 1 else 's'})" for name in names)
    title = "averages of groups of tasks, in percent ± the standard error over seeds alone"
    return TextTable(title, ("variant", *columns), rows)


def cost_table(results: Results) -> TextTable:
    """One row per variant: parameters, seconds and memory."""
    rows = []
    for name, facts in results.facts.items():
        rows.append(
            (
                name,
                trained(facts),
                NONE if facts["total_ratio"] is None else f"{facts['total_ratio']:.2f}",
                NONE if facts["seconds"] is None else f"{facts['seconds']:,.0f}",
                NONE if facts["memory"] is None else f"{facts['memory'] / 2**30:.2f}",
            )
        )
    columns = (
        *("variant", "trained parameters, % of the encoder", "held for all tasks, × one encoder"),
        *("training, seconds", "peak memory, GiB"),
    )
    return TextTable("cost of a run", columns, tuple(rows))


def contrasts_table(results: Results) -> TextTable:
    """One row per contrast: the difference of the average, its interval and the verdict."""
    rows = []
    for contrast in results.statistics["contrasts"]:
        difference = contrast["average"]
        rows.append(
            (
                f"{contrast['variant']} − {contrast['baseline']}",
                NONE if difference is None else f"{100 * difference['estimate']:+.2f}",
                interval(difference),
                verdict(contrast),
                NONE if contrast["p_holm"] is None else f"{contrast['p_holm']:.3f}",
                NONE if contrast["smallest"] is None else f"{100 * contrast['smallest']:.2f}",
            )
        )
    name = results.statistics["average"]
    of = f"the score of {name}" if name in results.statistics["tasks"] else "the average"
    if name not in ("average", *results.statistics["tasks"]):
        of += f" ({name})"
    title = f"differences of {of}, in points"
    columns = ("difference of", "points", "95 % interval", "verdict", "p (Holm)", "could show")
    return TextTable(title, columns, tuple(rows))


def published_table(results: Results) -> TextTable:
    """What a paper printed, beside ours, for the columns that it printed."""
    published: Mapping[str, Mapping[str, Any]] = results.grid.published["rows"]
    columns = list(dict.fromkeys(column for row in published.values() for column in row))
    rows = []
    for name, row in published.items():
        ours = results.statistics.get("variants", {}).get(name, {})
        cells: list[str] = []
        for column in columns:
            estimate = ours.get(results.statistics["average"] if column == "average" else column)
            shown = NONE if estimate is None else f"{100 * estimate['mean']:.1f}"
            value = results.facts.get(name, {}).get("published", {}).get(column)
            shown = shown if value is None else f"{value:.2f}"
            cells += [str(row[column]), shown] if column in row else [NONE, NONE]
        rows.append((name, *cells))
    source = results.grid.published.get("source", "published")
    pairs = [f"{column}, {which}" for column in columns for which in ("published", "ours")]
    return TextTable(f"published ({source}) and ours", ("variant", *pairs), tuple(rows))


def again_table(results: Results) -> TextTable:
    """One row per run that was trained once more: both averages, and whether they agree."""
    rows = []
    for run in results.again:
        difference = None if run.then is None or run.now is None else run.now - run.then
        rows.append(
            (
                run.run,
                NONE if run.then is None else f"{100 * run.then:.2f}",
                "failed" if run.failed else NONE if run.now is None else f"{100 * run.now:.2f}",
                "0, bit by bit" if run.equal else NONE if difference is None else in_points(difference),
                f"{run.task} {in_points(run.difference)}" if run.task and not run.equal else NONE,
                NONE if run.agrees is None else "yes" if run.agrees else "no",
                devices(run.machines),
            )
        )
    columns = (
        *("run", "average", "trained again", "difference, points"),
        *("largest difference of a task", "agrees", "trained on"),
    )
    return TextTable("runs that were trained again", columns, tuple(rows))


def claim_lines(results: Results) -> list[str]:
    """The claims for a terminal, whose lines are too short for a table: two lines each."""
    if not results.claims:
        return []
    lines = [claims_table(results).title]
    for claim in results.claims:
        lines += [f"{claim.verdict:9}  {claim.text}", f"{'':9}  {claim.why}"]
    return lines


def claims_table(results: Results) -> TextTable:
    """The claims with their verdicts, and why."""
    rows = tuple((claim.verdict, claim.text, claim.why) for claim in results.claims)
    counts = [[claim.verdict for claim in results.claims].count(verdict) for verdict in VERDICTS]
    summary = ", ".join(f"{count} {verdict}" for count, verdict in zip(counts, VERDICTS, strict=True))
    return TextTable(f"claims: {summary}", ("verdict", "claim", "why"), rows)


def score(estimate: Mapping[str, Any] | None) -> str:
    """A mean with its standard error, in percent."""
    if estimate is None:
        return NONE
    error = "" if estimate["se"] is None else f" ± {100 * estimate['se']:.1f}"
    return f"{100 * estimate['mean']:.1f}{error}"


def interval(difference: Mapping[str, Any] | None) -> str:
    """The interval of a difference, in points."""
    if difference is None or difference["interval"] is None:
        return NONE
    low, high = difference["interval"]
    return f"{100 * low:+.2f} to {100 * high:+.2f}"


def verdict(contrast: Mapping[str, Any]) -> str:
    """The verdict of a contrast, or why there is none; if it is undecided, what it would take."""
    if contrast["verdict"] is None:
        return f"none: {contrast['reason']}"
    needs = contrast["needs"]
    if needs is None:
        return str(contrast["verdict"])
    seeds = "more than 1,000 seeds" if needs["seeds"] is None else f"about {needs['seeds']} seeds"
    return f"{contrast['verdict']} (needs {'more rows' if needs['rows'] else seeds})"


def chosen(facts: Mapping[str, Any], key: str) -> str:
    """The chosen value of a tuned key; a star marks one at the edge of its range."""
    if key not in facts["chosen"]:
        return NONE
    return f"{facts['chosen'][key]}{' *' * (key in facts['edges'])}"


def trained(facts: Mapping[str, Any]) -> str:
    """The parameters that train, without heads, in percent of the encoder."""
    if facts["trained"] is None or not facts["encoder"]:
        return NONE
    return f"{100 * facts['trained'] / facts['encoder']:.2f} %"


def to_csv(results: Results) -> str:
    """All estimates as CSV, one line per variant and target, with every digit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("variant", "target", "seeds", "mean", "se", "se_seeds", "se_rows", "low", "high"))
    for variant, estimates in results.statistics.get("variants", {}).items():
        for target, estimate in estimates.items():
            low, high = estimate["interval"] or (None, None)
            parts = [estimate[key] for key in ("mean", "se", "se_seeds", "se_rows")]
            writer.writerow((variant, target, len(estimate["scores"]), *parts, low, high))
    return out.getvalue()
