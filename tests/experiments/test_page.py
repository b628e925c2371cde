"""The page of a grid: what it says first, its tables, and the commands that make it."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace

import pytest

from tests.support.tiny_grid import run_here, write_grid
from weft.experiments.call import Call
from weft.experiments.page import page
from weft.experiments.results import results_of

TEXT = """
seeds: 3
axes: {method: [full, lora]}
baseline: full
about: What a reader should know.
cautions: ["The rows are invented."]
published: {source: a paper, rows: {full: {cat: 71.5}}}
claims: [{text: lora is smaller, test: parameters(lora) < parameters(full)}]
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory, warm_workers):
    folder = tmp_path_factory.mktemp("page")
    return results_of(run_here(write_grid(folder, TEXT, steps=3), folder / "out", jobs=2), resamples=200)


def test_it_begins_with_what_was_found(results):
    title, first, about, setup = page(results).split("\n\n")[:4]
    assert title == "# tiny"
    means = {name: of["average"]["mean"] for name, of in results.statistics["variants"].items()}
    best = max(means, key=means.get)
    assert first.startswith(f"**The highest average is that of {best}, {100 * means[best]:.1f} ± ")
    assert re.search(
        r" The one difference is (undecided\.|decided: lora is (better|worse) than full\.) ", first
    )
    assert first.endswith("Of 1 claims 1 is held.")
    assert about == "What a reader should know."
    assert "3 tasks, 3 steps of" in setup
    assert "3 seeds per variant. Scores are on the validation rows (cat 12, same 12, count 12)." in setup


def test_an_unfinished_grid_says_so_and_names_no_variant_of_few_seeds_the_best(results):
    statistics = deepcopy(results.statistics)
    means = {name: of["average"]["mean"] for name, of in statistics["variants"].items()}
    best, other = sorted(means, key=means.get, reverse=True)
    scores = statistics["variants"][best]["average"]["scores"]
    statistics["variants"][best]["average"]["scores"] = dict(list(scores.items())[:1])
    first = page(replace(results, statistics=statistics, missing=2)).split("\n\n")[1]
    assert first.startswith(
        f"**Unfinished: 2 runs have not been made yet.** **The highest average is that of {other}, "
    )


def test_every_table_is_a_table(results):
    """All rows of a table have as many cells as its head, and no table is wider than its tasks need."""
    tables = re.findall(r"^## (.*)\n((?:\|.*\n)+)", page(results), re.M)
    assert [title for title, _ in tables] == [
        "Average scores",
        "Differences of the average, in points",
        "Claims: 1 held, 0 not held, 0 undecided",
        "Scores of each task, in percent",
        "Published (a paper) and ours",
        "Cost of a run",
    ]
    for _, text in tables:
        counts = {line.count(" | ") for line in text.strip().splitlines()}
        assert len(counts) == 1
    assert "| variant | cat, accuracy | same, accuracy | count, pearson |" in page(results)


def test_it_ends_with_cautions_and_commands(results):
    text = page(
        results, Call("recipe:tiny", ("train.steps=3", "tasks.root=/home/me/data"), "a.records", "p.md")
    )
    assert "- The rows are invented.\n" in text
    assert "/home/me" not in text
    assert (
        "```\nweft compare recipe:tiny train.steps=3 tasks.root=DATA --out runs/tiny --pack a.records\n"
        "weft compare recipe:tiny train.steps=3 --records a.records --page p.md\n```" in text
    )
    assert "## Repeat it" not in page(results)


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        (Call("grids/a.yaml"), ["weft compare grids/a.yaml --out runs/a"]),
        (Call("recipe:a"), ["weft compare recipe:a tasks.root=DATA --out runs/a"]),
        (
            Call("recipe:a", ("encoder=/x/minilm",), "/y/a.records"),
            [
                "weft compare recipe:a encoder=minilm tasks.root=DATA --out runs/a --pack a.records",
                "weft compare recipe:a --records a.records",
            ],
        ),
    ],
)
def test_commands(call, lines):
    assert call.lines() == lines


def test_a_grid_without_results(results):
    nothing = replace(results, statistics={}, claims=(), setup={}, facts={}, metrics={}, runs={})
    assert "No run has finished yet." in page(nothing)


CAT = "{labels: ['no', 'yes'], train: cat.train.jsonl, validation: cat.validation.jsonl}"
SAME = "{texts: [a, b], size: 3, train: same.train.jsonl, validation: same.validation.jsonl}"
OF_A_TASK = f"""
seeds: 3
average: cat
variants:
  all: {{}}
  cat alone: {{tasks: {{cat: {CAT}}}}}
  without cat: {{tasks: {{same: {SAME}}}}}
contrasts: [[all, cat alone]]
"""


@pytest.mark.usefixtures("warm_workers")
def test_verdicts_may_be_about_the_score_of_a_task(tmp_path):
    """As in transfer, where most variants have one task, and others are only what they start from."""
    results = results_of(
        run_here(write_grid(tmp_path, OF_A_TASK, steps=3), tmp_path / "out", jobs=2), resamples=200
    )
    text = page(results)
    scores = {name: of["cat"]["mean"] for name, of in results.statistics["variants"].items() if "cat" in of}
    assert set(scores) == {"all", "cat alone"}
    assert text.split("\n\n")[1].startswith(
        f"**The highest score of cat is that of {max(scores, key=scores.get)}, "
    )
    tables = dict(re.findall(r"^## (.*)\n((?:\|.*\n)+)", text, re.M))
    assert "| without cat |" not in tables["Scores of cat"]
    assert "| without cat |" in tables["Scores of each task, in percent"]
    (contrast,) = results.statistics["contrasts"]
    assert contrast["average"]["estimate"] == pytest.approx(scores["all"] - scores["cat alone"])
    shown = f"{100 * contrast['average']['estimate']:+.2f}"
    assert f"| all − cat alone | {shown} |" in tables["Differences of the score of cat, in points"]


def test_a_grid_that_trains_nothing_shows_counts_alone(results):
    """Its scores are those of heads that were never trained."""
    setup = {**results.setup, "steps": [0]}
    text = page(replace(results, setup=setup))
    assert (
        text.split("\n\n")[1]
        == "**Nothing was trained: the tables count parameters.** Of 1 claims 1 is held."
    )
    titles = re.findall(r"^## (.*)$", text, re.M)
    assert "Cost of a run" in titles
    assert not {
        "Average scores",
        "Differences of the average, in points",
        "Scores of each task, in percent",
    } & {*titles}
