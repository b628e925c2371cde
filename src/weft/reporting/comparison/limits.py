"""What must not be concluded from a comparison: few seeds, texts that were seen before, edges, failures."""

from __future__ import annotations

from collections.abc import Iterator

from weft.experiments.claims.evaluate import FEWEST_SEEDS
from weft.reporting.comparison_data import ComparisonData
from weft.reporting.page import Section
from weft.suites.seen_before import seen_before
from weft.utils.markup import Html, join, tag


def limits_section(data: ComparisonData, key: str) -> Section:
    """The limits of a comparison, as a list."""
    limits = list(_limits(data))
    if not limits:
        limits = ["nothing that weft knows of: runs are complete, and no texts are known to be shared"]
    always = (
        "The intervals say what new seeds and new rows of the same kind would do. They say nothing about "
        "other training data, encoders, lengths of training or languages."
    )
    body = tag("div", tag("ul", *(tag("li", limit) for limit in limits)), tag("p", always), class_="warn")
    return Section(key, "What must not be concluded", body)


def contaminated(data: ComparisonData) -> dict[str, list[str]]:
    """Why the score of a task is not one on new texts, by task; tasks without a known reason are left out."""
    reasons: dict[str, list[str]] = {}
    for name in data.names:
        record = data.first(name)
        if record is None:
            continue
        for task, why in seen_before(record.settings, list(record.metrics)).items():
            known = reasons.setdefault(task, [])
            known += [reason for reason in why if reason not in known]
    return reasons


def _limits(data: ComparisonData) -> Iterator[object]:
    for task, why in contaminated(data).items():
        yield join([tag("b", task), f" is no score on new texts: {'; '.join(why)}"])
    few = {
        name: len(facts["seeds"])
        for name, facts in data.variants.items()
        if len(facts["seeds"]) < FEWEST_SEEDS
    }
    if few:
        most = max(few.values())
        who = "all variants have" if len(few) == len(data.names) else f"{_listed(list(few))} have"
        yield (
            f"{who} at most {most} {'seed' if most == 1 else 'seeds'}: a difference may be luck, and there "
            f"is no verdict below {FEWEST_SEEDS} seeds"
        )
    undecided = [c for c in data.statistics.get("contrasts") or () if c.get("verdict") == "undecided"]
    if undecided:
        count = "one difference is" if len(undecided) == 1 else f"{len(undecided)} differences are"
        yield f"{count} undecided, which does not mean that the variants are equal"
    edges = [name for name, facts in data.variants.items() if facts["edges"]]
    if edges:
        yield (
            f"the tuned value of {_listed(edges)} is the smallest or largest that was tried: a better one "
            "may lie beyond"
        )
    for name, facts in data.variants.items():
        unlearned = facts.get("not_learned")
        if isinstance(unlearned, list) and unlearned:
            tasks = _listed([str(task) for task in unlearned])
            yield f"{name} is not better than the most frequent answer on {tasks}"
    failed = {name: facts["failed"] for name, facts in data.variants.items() if facts["failed"]}
    for name, seeds in failed.items():
        for seed, reason in seeds.items():
            yield f"{name}, seed {seed} failed, and is not in the means: {str(reason).splitlines()[0]}"
    if data.results.get("missing"):
        yield f"{data.results['missing']} runs have not been made yet"
    if data.lost:
        yield f"{data.lost} records are missing or damaged: curves and costs are without them"
    machines = {machine for facts in data.variants.values() for machine in facts.get("machines", ())}
    if len(machines) > 1:
        listed = ", ".join(sorted(machines))
        yield f"runs were made on different machines ({listed}): do not compare their seconds"
    yield from (str(note) for note in data.statistics.get("notes", ()))
    cautions = data.results.get("cautions")
    yield from (_marked(str(text)) for text in (cautions if isinstance(cautions, list) else ()))


def _marked(text: str) -> Html:
    """A sentence of a grid, in which backquotes stand around code as in Markdown."""
    parts = text.split("`")
    return join(tag("code", part) if place % 2 else part for place, part in enumerate(parts))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
