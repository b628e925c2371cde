"""The fuzzer notices every way to fail, and a case is the same whenever and wherever it is run."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.apart import run_apart
from tests.fuzz.areas import AREAS
from tests.fuzz.child import fingerprint
from tests.fuzz.planted import BEHAVIOURS, build_planted
from tests.fuzz.runner import Numbered, Result, spread
from tests.fuzz.table import failures_of, table_of


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    cases = [Numbered("planted", number) for number in range(len(BEHAVIOURS))]
    return run_apart({"planted": build_planted}, cases, folder, limit=1.0, rebuild=False), folder


def test_every_way_to_fail_is_noticed(planted):
    results, _ = planted
    verdicts = {name: result.kind for name, result in zip(BEHAVIOURS, results, strict=True)}
    assert verdicts == {name: kind for name, (_, kind, _) in BEHAVIOURS.items()}


def test_the_files_of_failures_are_kept_and_no_others(planted):
    results, folder = planted
    failed = {f"planted-{result.number}" for result in results if not result.right}
    assert {path.name for path in (folder / "failed").iterdir()} == failed
    assert list((folder / "cases").iterdir()) == []


def test_the_table_counts_every_case_once(planted):
    results, _ = planted
    header, row, sums = table_of(results).splitlines()
    counts = Counter(result.kind for result in results)
    assert header.split()[:4] == ["area", "cases", "accepted", "refused"]
    assert [int(cell) for cell in row.split()[1:4]] == [len(results), counts["accepted"], counts["refused"]]
    assert sum(map(int, row.split()[2:])) == len(results)
    assert sums.split()[1:] == row.split()[1:]


def test_failures_of_one_cause_are_listed_together():
    def failed(number, detail):
        return Result("bundles", number, "traceback", detail, f"weft {number}", 0.1)

    results = [failed(7, "KeyError: 'a' 17"), failed(3, "KeyError: 'a' 99"), failed(5, "TypeError: x")]
    assert failures_of(results).splitlines() == [
        "2 × bundles, traceback: KeyError: 'a' 99",
        "    case 3: weft 3",
        "1 × bundles, traceback: TypeError: x",
        "    case 5: weft 5",
    ]


def test_shares():
    cases = spread({"a": 3, "b": 1}, 100)
    assert Counter(case.area for case in cases) == {"a": 75, "b": 25}
    assert len(set(cases)) == 100
    # any beginning of the list has cases of every area
    assert {case.area for case in cases[:6]} == {"a", "b"}
    assert sum(share for _, share in AREAS.values()) == pytest.approx(110, abs=20)


@pytest.mark.parametrize("change", ["contents", "name", "link", "more", "gone"])
def test_a_fingerprint_notices_every_change(tmp_path, change):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_text("a")
    (folder / "b").symlink_to("a")
    before = fingerprint(folder)
    assert fingerprint(folder) == before
    if change == "contents":
        (folder / "a").write_text("b")
    elif change == "name":
        (folder / "a").rename(folder / "c")
    elif change == "link":
        (folder / "b").unlink()
        (folder / "b").symlink_to("c")
    elif change == "more":
        (folder / "c").mkdir()
    else:
        (folder / "a").unlink()
    assert fingerprint(folder) != before
