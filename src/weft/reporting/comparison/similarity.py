"""Heat maps of the similarity of the tasks' updates (Figure 2 of MORRIS), if a grid has measured it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import fsum

from weft.analysis.similarity_order import blocks_of
from weft.experiments.measures.of_weights import TIMES
from weft.reporting.comparison.first_few import first_few
from weft.reporting.comparison_data import ComparisonData, mean_of
from weft.reporting.page import Section, figure
from weft.reporting.pictures.heat_map import heat_map, two_decimals
from weft.reporting.run.conflict import matrix_table
from weft.reporting.run_data import numbers_of
from weft.utils.markup import Html, join, tag

MAPS: Mapping[str, str] = {
    "query_pairs": "Weights of the query map",
    "ffn_in_bias_pairs": "Biases of the first feed-forward map",
}
"""The measures that are drawn, and their titles."""
MOST = 40
"""The most tasks of a heat map; with more, its numbers cannot be read."""
SMALL, FITTING = 6, 10
"""The most tasks of a heat map that keeps its size, and of one that is made as wide as its place; larger ones
are scrolled."""

Pairs = Mapping[frozenset[str], float]
"""The cosine of each pair of tasks."""


def similarity_section(data: ComparisonData, key: str) -> Section | None:
    """One heat map per variant and kind of map: the mean cosine of the updates of every two tasks."""
    parts: list[object] = []
    for measure, title in MAPS.items():
        pairs = {name: of for name in data.names if (of := mean_pairs(data, name, measure))}
        if pairs:
            parts += [tag("h3", title), _pictures(data, pairs, title, f"{key}-{measure.replace('_', '-')}")]
    if not parts:
        return None
    text = (
        "The cosine of what training has added to the encoder for one task and for another, mean over layers "
        "and seeds: 1 is the same direction, 0 is none in common, below 0 the two pull apart. Pictures with "
        "one heading have the same colors for the same numbers."
    )
    return Section(key, "Similarity of tasks", join([tag("p", text), *parts]))


def mean_pairs(data: ComparisonData, variant: str, measure: str) -> dict[frozenset[str], float]:
    """The mean over seeds of the cosine of each pair of tasks; keys and values of another form are left out.

    Args:
        data: the comparison.
        variant: a variant.
        measure: one of `MAPS`.
    """
    values: dict[frozenset[str], list[float]] = {}
    for record in data.records.get(variant, {}).values():
        for name, value in numbers_of(record.measures.get(measure)).items():
            pair = frozenset(name.split(TIMES))
            if name.count(TIMES) == 1 and len(pair) == 2 and -1.01 <= value <= 1.01:
                values.setdefault(pair, []).append(value)
    return {pair: mean for pair, of in values.items() if (mean := mean_of(of)) is not None}


def task_blocks(data: ComparisonData, tasks: Sequence[str]) -> list[list[str]]:
    """Tasks in the order of the pictures: by their kind as in the paper, or as in the grid, in one block."""
    kinds = list(blocks_of(tasks).values())
    if len(kinds) > 1:
        return kinds
    known = [task for task in data.tasks if task in tasks]
    return [[*known, *sorted(task for task in tasks if task not in known)]]


def _pictures(data: ComparisonData, pairs: Mapping[str, Pairs], title: str, key: str) -> Html:
    tasks = list({task: None for of in pairs.values() for pair in of for task in sorted(pair)})
    if len(tasks) > MOST:
        return tag("p", f"{len(tasks)} tasks are too many for a picture: at most {MOST} are drawn.")
    blocks = task_blocks(data, tasks)
    reach = max((abs(value) for of in pairs.values() for value in of.values()), default=1.0) or 1.0
    figures = {
        name: _figure(data, name, of, blocks, reach, title, f"{key}-{place}")
        for place, (name, of) in enumerate(pairs.items())
    }
    return first_few(data, figures)


def _figure(
    data: ComparisonData,
    variant: str,
    pairs: Pairs,
    blocks: Sequence[Sequence[str]],
    reach: float,
    title: str,
    key: str,
) -> Html:
    tasks = [task for block in blocks for task in block]
    matrix = [[pairs.get(frozenset((a, b)), math.nan) for b in tasks] for a in tasks]
    description = _described(pairs, blocks)
    picture = heat_map(
        tasks,
        tasks,
        matrix,
        key=key,
        title=f"{title}: {variant}",
        description=description,
        low=-reach,
        high=reach,
        blocks=[len(block) for block in blocks],
    )
    table = matrix_table(f"{title}, {variant}: mean cosine of two tasks' updates", tasks, matrix)
    fit = "" if len(tasks) <= SMALL else "fill" if len(tasks) <= FITTING else "keep"
    return figure(variant, picture, table, fit, [description])


def _described(pairs: Pairs, blocks: Sequence[Sequence[str]]) -> str:
    """The extremes in words, and with several kinds of tasks the means within and between them."""
    ranked = [
        (pairs[frozenset(pair)], " and ".join(pair))
        for pair in combinations([task for block in blocks for task in block], 2)
        if frozenset(pair) in pairs
    ]
    low, high = min(ranked), max(ranked)
    text = f"Highest: {high[1]}, {two_decimals(high[0])}. Lowest: {low[1]}, {two_decimals(low[0])}."
    inside = [frozenset(pair) for block in blocks for pair in combinations(block, 2)]
    within = [pairs[pair] for pair in inside if pair in pairs]
    between = [value for pair, value in pairs.items() if pair not in inside]
    if within and between:
        means = [two_decimals(fsum(of) / len(of)) for of in (within, between)]
        text += f" Mean within a kind of task {means[0]}, between kinds {means[1]}."
    return text
