"""The results of a grid: the statistics of all finished cells, and everything else that its tables show.

The statistics of a large grid take up to a minute. They depend on the records alone, and are kept in the
folder (`statistics.json`, with a hash of what they were made from), so that a call that runs nothing answers
at once.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.experiments.again import Repeated, repeated
from weft.experiments.cells import variants_of
from weft.experiments.claims import ClaimResult, claim_results, claim_sums
from weft.experiments.claims.of_records import RecordedData
from weft.experiments.compared import Compared
from weft.experiments.grid import Grid
from weft.experiments.groups import group_facts
from weft.experiments.guesses import not_learned
from weft.experiments.identity import digest
from weft.experiments.measure_tables import measured_means
from weft.experiments.measures import not_measured
from weft.experiments.records import Record
from weft.experiments.tuning import Choice
from weft.utils.files import write_json
from weft.utils.safe_json import parse_json

FILE = "statistics.json"
FORM = 1
"""The version of the cached file; raise it when the statistics change."""


@dataclass(frozen=True)
class Results:
    """Everything that tables show, as JSON has it.

    Attributes:
        grid: the grid.
        statistics: `Comparison.to_dict()`: estimates of each variant, contrasts, notes.
        facts: by variant: `seeds`, `trained` and `total_ratio` of parameters (means over seeds: L0 gates keep
            different components), mean `seconds` of training, peak `memory`, `chosen` labels of tuned
            keys, those at `edges`, all that were `tried` with their averages, `failed` seeds with reasons,
            `published`: our values of published columns that are no scores, averages of `groups` of tasks,
            means of `measures` over seeds, by seed why measures were `not_measured`, and the tasks that
            were `not_learned`: a majority answer scores as high.
        missing: how many cells have neither a record nor a failure.
        claims: the claims of the grid with their verdicts.
        setup: what the records say about all runs: `encoders`, `steps`, `batch_sizes`, reported `rows` by
            task, and `versions`; {}: no run has finished.
        metrics: the metric that is the score of each task.
        runs: the identity of each finished run by variant and seed: its record has this name.
        again: the runs that were trained once more.
    """

    grid: Grid
    statistics: dict[str, Any]
    facts: dict[str, dict[str, Any]]
    missing: int
    claims: tuple[ClaimResult, ...] = ()
    setup: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)
    runs: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    again: tuple[Repeated, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All numbers, JSON-ready."""
        return {
            "title": self.grid.title,
            "about": self.grid.about,
            "cautions": list(self.grid.cautions),
            "report": self.grid.report,
            "measures": list(self.grid.measures),
            "baseline": self.grid.baseline,
            "statistics": self.statistics,
            "variants": self.facts,
            "published": dict(self.grid.published),
            "setup": self.setup,
            "metrics": self.metrics,
            "missing": self.missing,
            "claims": [claim.to_dict() for claim in self.claims],
            "runs": {name: {str(seed): x for seed, x in seeds.items()} for name, seeds in self.runs.items()},
            "again": [run.to_dict() for run in self.again],
        }


def results_of(compared: Compared, resamples: int = 10_000, folder: Path | None = None) -> Results:
    """Compute the results of a grid, or take them from its folder if nothing has changed.

    Args:
        compared: the grid's cells with their records.
        resamples: the number of bootstrap resamples.
        folder: the folder of its tables; None: that of the records.
    """
    plan = compared.plan
    grid, folder = plan.grid, folder or plan.out
    records = compared.records
    facts = {variant.name: _facts(variant.name, compared) for variant in variants_of(grid)}
    done = sum(planned.record is not None for planned in plan.cells.values())
    missing = len(plan.cells) - done - len(compared.failed)
    if not records:
        return Results(grid, {}, facts, missing, tuple(claim_results(grid, records)))
    identities = {
        variant: {seed: record.identity for seed, record in seeds.items()}
        for variant, seeds in records.items()
    }
    key = digest(
        {
            "form": FORM,
            "resamples": resamples,
            "average": grid.average,
            "contrasts": _contrasts(grid, records),
            "sums": claim_sums(grid),
            "records": identities,
        }
    )
    statistics = _cached(folder / FILE, key)
    if statistics is None:
        statistics = _statistics(grid, records, resamples)
        write_json(folder / FILE, {"key": key, "statistics": statistics})
    claims = tuple(claim_results(grid, records, statistics))
    setup, metrics = _setup(records), _metrics(records)
    again = repeated(plan, records, compared.not_repeated)
    return Results(grid, statistics, facts, missing, claims, setup, metrics, identities, again)


def _setup(records: Mapping[str, Mapping[int, Record]]) -> dict[str, Any]:
    """What the settings of all records have in common, or the values that occur."""
    flat = [record for seeds in records.values() for record in seeds.values()]
    trains = [record.settings.get("train") or {} for record in flat]
    rows: dict[str, int] = {}
    for record in flat:
        rows |= record.rows
    machines = [record.machine for record in flat]
    return {
        "encoders": _distinct(record.settings.get("encoder") for record in flat),
        "steps": _distinct(train.get("steps") for train in trains),
        "batch_sizes": _distinct(train.get("batch_size") for train in trains),
        "rows": rows,
        "versions": _distinct(f"weft {of.get('weft')}, torch {of.get('torch')}" for of in machines),
    }


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(value for value in values if value is not None))


def _metrics(records: Mapping[str, Mapping[int, Record]]) -> dict[str, str]:
    """The first metric of each task, which is its score."""
    return {
        task: next(iter(metrics))
        for seeds in records.values()
        for record in seeds.values()
        for task, metrics in record.metrics.items()
        if metrics
    }


def _contrasts(grid: Grid, records: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The contrasts that get verdicts, as far as both variants have runs."""
    pairs = list(grid.contrasts)
    if grid.baseline is not None:
        pairs = [(name, grid.baseline) for name in records if name != grid.baseline] + pairs
    return [pair for pair in dict.fromkeys(pairs) if all(name in records for name in pair)]


def _statistics(grid: Grid, records: Mapping[str, Mapping[int, Record]], resamples: int) -> dict[str, Any]:
    from weft.evaluation.rows.pack import unpack
    from weft.experiments.statistics import CombinationTerm, Contrast, compare

    runs = {
        variant: {
            seed: unpack(_decoded(record), f"record {record.identity}") for seed, record in seeds.items()
        }
        for variant, seeds in records.items()
    }
    contrasts = [Contrast(variant, baseline) for variant, baseline in _contrasts(grid, records)]
    sums = [tuple(CombinationTerm(*term) for term in terms) for terms in claim_sums(grid)]
    try:
        comparison = compare(runs, contrasts, average=grid.average, resamples=resamples, combinations=sums)
        return comparison.to_dict()
    except WeftError as wrong:
        raise WeftError(f"{grid.source}: {wrong}") from None


def _decoded(record: Record) -> bytes:
    try:
        return base64.b64decode(record.statistics)
    except ValueError:
        return b""  # reported as damaged


def _cached(path: Path, key: str) -> dict[str, Any] | None:
    try:
        facts = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    if isinstance(facts, dict) and facts.get("key") == key and isinstance(facts.get("statistics"), dict):
        return dict(facts["statistics"])
    return None


def _facts(variant: str, compared: Compared) -> dict[str, Any]:
    """What is known of a variant besides its scores."""
    records = list(compared.records.get(variant, {}).values())
    seconds = [record.seconds["train"] for record in records if "train" in record.seconds]
    memory = [record.memory for record in records if record.memory is not None]
    choice = compared.choices.get(variant)
    failed = {
        str(planned.cell.seed): compared.failed[name]
        for name, planned in compared.plan.cells.items()
        if planned.cell.variant == variant and name in compared.failed
    }
    groups = group_facts(compared.plan.grid.groups, records)
    return {
        "seeds": sorted(compared.records.get(variant, {})),
        "trained": _parameter(records, "trained"),
        "encoder": _parameter(records, "encoder"),
        "total_ratio": _parameter(records, "total_ratio"),
        "seconds": round(fsum(seconds) / len(seconds), 2) if seconds else None,
        "memory": max(memory) if memory else None,
        "machines": sorted({record.device for record in records if record.device is not None}),
        "chosen": dict(choice.labels) if choice else {},
        "edges": list(choice.edges) if choice else [],
        "tried": _tried(choice) if choice else [],
        "failed": failed,
        "published": _published(variant, compared),
        "groups": groups,
        "measures": measured_means(records),
        "not_learned": not_learned(records),
        "not_measured": {
            str(seed): failed
            for seed, record in compared.records.get(variant, {}).items()
            if (failed := not_measured(record.measures))
        },
    }


def _parameter(records: Sequence[Record], name: str) -> float | None:
    """A count of parameters: that of every record, or their mean if L0 gates kept different components."""
    values = [record.parameters[name] for record in records if record.parameters.get(name) is not None]
    if not values:
        return None
    return values[0] if len(set(values)) == 1 else fsum(values) / len(values)


def _tried(choice: Choice) -> list[dict[str, Any]]:
    """Every combination of tuned values that was tried, with its average on the half that chooses."""
    return [
        {"values": dict(zip(choice.labels, labels, strict=True)), "average": score}
        for labels, score in choice.scores.items()
    ]


def _published(variant: str, compared: Compared) -> dict[str, float]:
    """Our values of the columns of published ones that are no scores: counts, the spread, and measures."""
    grid = compared.plan.grid
    data = RecordedData(grid, compared.records, {})
    groups = group_facts(grid.groups, compared.records.get(variant, {}).values())
    values = {}
    for column in grid.published.get("rows", {}).get(variant, {}):
        if column in groups:
            values[column] = 100 * groups[column]["mean"]
            continue
        function = column if column in ("total_ratio", "spread") else "measure"
        per_seed = data.per_seed(function, variant, column)
        if per_seed:
            values[column] = fsum(per_seed.values()) / len(per_seed)
    return values
