"""The order of the tasks in a similarity."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from tests.support.tiny import build, scramble
from weft import suites
from weft.analysis.similarity import Similarity, SiteSimilarity, similarity
from weft.analysis.similarity_order import blocks_of, clustered, in_blocks, ordered, read_order
from weft.encoder.sites import Site
from weft.errors import WeftError

GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")


def planted(groups, within=0.8, between=0.1):
    """Similarities of tasks in groups; a little apart, so that no two are equal."""
    count = len(groups)
    noise = 0.01 * np.cos(np.arange(count * count).reshape(count, count))
    found = np.where(np.equal.outer(groups, groups), within, between) + (noise + noise.T) / 2
    np.fill_diagonal(found, 1.0)
    return found


@pytest.mark.parametrize("groups", [[0, 1, 0, 1, 0, 1], [1, 0, 2, 0, 1, 2, 0], [0, 1]])
def test_clustering_puts_planted_groups_together(groups):
    places = clustered(planted(groups))
    assert sorted(places) == list(range(len(groups)))
    assert places[0] < places[-1]
    met = [groups[place] for place in places]
    changes = sum(a != b for a, b in pairwise(met))
    assert changes == len(set(groups)) - 1


def test_clustering_does_not_depend_on_the_given_order():
    matrix = planted([0, 1, 0, 1, 2, 2])
    names = [clustered(matrix)]
    for order in ([5, 2, 0, 1, 4, 3], [3, 4, 5, 0, 1, 2]):
        places = [order[place] for place in clustered(matrix[np.ix_(order, order)])]
        names.append(places if places[0] < places[-1] else places[::-1])
    assert names[0] == names[1] == names[2]


def test_clustering_takes_what_is_undefined_for_0():
    matrix = planted([0, 1, 0, 1])
    matrix[3, :] = matrix[:, 3] = np.nan
    places = clustered(matrix)
    assert abs(places.index(0) - places.index(2)) == 1
    assert sorted(clustered(np.full((4, 4), np.nan))) == [0, 1, 2, 3]
    assert clustered(np.full((2, 2), np.nan)) == [0, 1]


def found_of(tasks, weight=None, bias=None):
    site = Site("query", 0, 4, 4, "")
    return Similarity(tuple(tasks), (SiteSimilarity(site, weight, bias),))


def test_weights_and_biases_have_one_order():
    alike = planted([0, 1, 0, 1])
    blank = np.full((4, 4), np.nan)
    for given in ({"weight": alike}, {"bias": alike}, {"weight": alike, "bias": blank}):
        assert ordered(found_of("abcd", **given), "clustered").tasks in (tuple("acbd"), tuple("acdb"))


def test_given_and_listed():
    found = similarity(scramble(build("bert", "lora")))
    assert ordered(found, "given").tasks == ("a", "b", "c", "d")
    assert ordered(found, ("d", "b", "a", "c")).tasks == ("d", "b", "a", "c")
    for order, message in (
        (("a", "b", "x"), "task 'x' is not in this model"),
        (("a", "b"), "expected all 4 tasks.*it lacks c, d"),
        (("a", "b", "c", "d", "a"), "names some twice"),
        ("nothing", "task 'nothing' is not"),
    ):
        with pytest.raises(WeftError, match=message):
            ordered(found, order)


def test_the_papers_order():
    assert in_blocks(["wnli", "mnli", "qqp", "cola"]) == ["cola", "qqp", "mnli", "wnli"]
    assert tuple(in_blocks(sorted(GLUE))) == GLUE
    tasks = [weft.Task(name, labels=("x", "y")) for name in ("rte", "sst2", "cola")]
    found = similarity(scramble(build("bert", "lora", tasks=tasks)))
    assert ordered(found, "paper").tasks == ("cola", "sst2", "rte")
    with pytest.raises(
        WeftError, match=r"one suite \(glue\).*task 'mine' is in none of them; use clustered.*cola,mine"
    ):
        in_blocks(["cola", "mine"])


def test_tasks_by_their_kind():
    kinds = blocks_of(["rte", "cola", "mnli"])
    assert kinds == {"single sentence": ["cola"], "inference": ["mnli", "rte"]}
    assert blocks_of(["cola", "mine"]) == {}


def test_tasks_of_two_suites_are_refused(monkeypatch):
    blocks = {"one": {"x": ["a", "b"]}, "two": {"y": ["c", "d"]}}
    monkeypatch.setattr(suites, "suite_blocks", lambda: blocks)
    assert in_blocks(["d", "c"]) == ["c", "d"]
    with pytest.raises(WeftError, match="its tasks are of several suites"):
        in_blocks(["a", "c"])


def test_the_blocks_of_a_suite_are_its_tasks():
    for name, blocks in suites.suite_blocks().items():
        flat = [task for block in blocks.values() for task in block]
        assert sorted(flat) == sorted(suites._table(name)["tasks"])
    assert list(suites.suite_blocks()["glue"]) == [
        "single sentence",
        "similarity and paraphrase",
        "inference",
    ]


def test_read_order():
    assert [read_order(x) for x in ("clustered", "given", "paper")] == ["clustered", "given", "paper"]
    assert read_order("a, b,c") == ("a", "b", "c")
    for text, message in (
        ("clusterd", "did you mean 'clustered'.*a,b,c"),
        ("a,,b", "empty name"),
        ("a,b,a", "'a' twice"),
    ):
        with pytest.raises(WeftError, match=message):
            read_order(text)


def test_an_order_needs_names_and_matrices_alone():
    found = SimpleNamespace(tasks=("a", "b"))
    assert ordered(found, "given") is found
