"""Pages as a whole: structure, size, what is imported, and names and texts that do nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.support.outline import HOSTILE, Outline, check_page
from tests.support.paths import ROOT
from tests.support.report_grid import large_comparison
from tests.support.report_runs import error_report, write_run_folder
from weft.errors import WeftError
from weft.reporting.report import FILE, read_source, report, report_html

LARGE = 500_000
"""The most bytes of a page of 4 or 9 variants, 8 tasks and 3 seeds with traces and similarities."""
LARGEST = 2_000_000
"""The most bytes of a page of 25 variants, 8 tasks and 5 seeds."""


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    return large_comparison(tmp_path_factory.mktemp("small"), variants=3, tasks=2, seeds=3)


def renamed(value, names):
    """JSON values with every name replaced, in keys too."""
    if isinstance(value, dict):
        return {renamed(key, names): renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


def hostile_comparison(comparison, out):
    """The same comparison with hostile names of variants and tasks, texts and reasons."""
    facts = json.loads((comparison / "tables.json").read_text())
    names = dict(zip(("variant 0", "variant 1", "variant 2", "task0", "task1"), HOSTILE, strict=False))
    facts = renamed(facts, names)
    facts |= {"title": HOSTILE[0], "about": HOSTILE[1], "report": HOSTILE[3]}
    facts["claims"] = [
        {**claim, "text": HOSTILE[2], "why": HOSTILE[0], "test": HOSTILE[1]} for claim in facts["claims"]
    ]
    facts["published"]["source"] = HOSTILE[2]
    facts["statistics"]["notes"] = list(HOSTILE)
    first = next(iter(facts["variants"].values()))
    first |= {
        "failed": {"1": HOSTILE[1]},
        "edges": ["x"],
        "chosen": {HOSTILE[0]: HOSTILE[1]},
        "machines": list(HOSTILE),
    }
    out.mkdir()
    (out / "records").symlink_to(comparison / "records")
    (out / "tables.json").write_text(json.dumps(facts))
    return out


def hostile_run(folder):
    """A run whose tasks, settings, errors and machine have hostile names."""
    write_run_folder(folder, HOSTILE, sampler={"use": HOSTILE[0]})
    (folder / "errors.json").write_text(json.dumps(error_report(HOSTILE, HOSTILE[1], HOSTILE[0])))
    (folder / "similarity.json").write_text(
        json.dumps({"order": list(HOSTILE), "average": {"weight": [[0.5] * len(HOSTILE)] * len(HOSTILE)}})
    )
    with (folder / "log.jsonl").open("a") as file:
        start = {"event": "resume", "step": 3, "why": HOSTILE[1], "environment": {HOSTILE[0]: HOSTILE[2]}}
        file.write(json.dumps(start) + "\n")
    return folder


def test_the_page_of_a_run(tmp_path):
    page = report(folders=[write_run_folder(tmp_path / "first")])
    assert page == tmp_path / "first" / FILE
    outline = check_page(page.read_text())
    assert outline.inside("h1") == ["Run first"]
    assert len([a for a in outline.named("svg") if a.get("role") == "img"]) == 9


def test_the_page_of_a_comparison(comparison):
    page = report_html([read_source(comparison)])
    outline = check_page(page)
    titles = outline.inside("h2")
    expected = ["What must not be concluded", "Scores", "Published figures", "Differences", "Claims"]
    expected += ["Learning curves", "Steps to a score", "Score against cost", "Chosen settings", "Runs"]
    assert titles == expected
    # three curves, steps to a score, the forest of the average and of two tasks, four costs
    assert len([a for a in outline.named("svg") if a.get("role") == "img"]) == 3 + 1 + 3 + 4


def test_the_page_of_a_comparison_with_traces_and_similarities(tmp_path):
    out = large_comparison(tmp_path, variants=3, tasks=2, seeds=2, over_time=True)
    outline = check_page(report_html([read_source(out)]))
    expected = ["Learning curves", "Steps to a score", "Sampling over time", "Uncertainty over time"]
    expected += ["Score against cost", "Similarity of tasks", "Chosen settings"]
    assert [title for title in outline.inside("h2") if title in expected] == expected


@pytest.mark.slow
def test_comparisons_of_the_papers_stay_small(tmp_path):
    """Four variants with every picture, and nine that were trained on the same, without entropies."""
    four = large_comparison(tmp_path / "four", variants=4, tasks=8, seeds=3, over_time=True)
    assert len(report_html([read_source(four)]).encode()) < LARGE
    nine = read_source(large_comparison(tmp_path / "nine", variants=9, tasks=8, seeds=3, over_time=True))
    examples = nine.first("variant 0").trace["examples"]
    records = {
        name: {seed: replace(record, trace={"examples": examples}) for seed, record in seeds.items()}
        for name, seeds in nine.records.items()
    }
    page = report_html([replace(nine, records=records)])
    assert len(page.encode()) < LARGE
    assert "Similarity of tasks" in Outline(page).inside("h2")


def test_equal_folders_make_equal_pages(comparison):
    assert report_html([read_source(comparison)]) == report_html([read_source(comparison)])


def test_several_sources_share_a_page(comparison, tmp_path):
    runs = [write_run_folder(tmp_path / name) for name in ("one", "two")]
    outline = check_page(report_html([read_source(path) for path in (*runs, comparison)]))
    assert outline.inside("h2")[0] == "All runs"
    assert any(title.startswith("two: ") for title in outline.inside("h2"))
    assert any(title == "out: Claims" for title in outline.inside("h2"))


def test_hostile_names_and_texts_do_nothing(comparison, tmp_path):
    """No element, no attribute and no link comes from them; the texts themselves are shown."""
    sources = [hostile_run(tmp_path / "run"), hostile_comparison(comparison, tmp_path / "compared")]
    for source in sources:
        page = report_html([read_source(source)])
        outline = check_page(page)
        assert "owned" not in outline.ids
        assert any(HOSTILE[0] in text for _, text in outline.texts)
        assert outline.inside("script") == Outline(report_html([read_source(comparison)])).inside("script")


@pytest.mark.slow
def test_a_large_comparison_stays_small_enough(tmp_path):
    """Size follows from the numbers alone: few rows per task suffice here."""
    out = large_comparison(tmp_path, variants=25, tasks=8, seeds=5)
    page = report(folders=[out])
    assert page.stat().st_size < LARGEST
    outline = check_page(page.read_text())
    curves = [a for a in outline.named("g") if (a.get("class") or "").startswith("series")]
    assert len([a for a in curves if a.get("data-column")]) == 25 * 9


def test_the_command_imports_no_torch(comparison, tmp_path):
    folder = write_run_folder(tmp_path / "run")
    page = tmp_path / "page.html"
    code = (
        "import sys; from weft import cli; "
        f"code = cli.run(['report', {str(folder)!r}, {str(comparison)!r}, '--out', {str(page)!r}]); "
        "assert code == 0, code; assert 'torch' not in sys.modules; assert 'transformers' not in sys.modules"
    )
    env = {"PYTHONPATH": str(ROOT / "src"), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path / "nothing", "there is no folder"),
        (lambda path: path, "holds neither a run nor a comparison"),
        (lambda path: _file(path), "is a file"),
        (lambda path: _folder(path / "records"), "tables.json is missing; to write it, repeat the command"),
    ],
)
def test_other_folders_are_refused(tmp_path, make, message):
    with pytest.raises(WeftError) as wrong:
        report(folders=[make(tmp_path)])
    assert message in str(wrong.value)


def _file(path):
    (path / "file").write_text("x")
    return path / "file"


def _folder(path):
    path.mkdir()
    return path.parent


def test_several_folders_need_a_name(tmp_path):
    folder = write_run_folder(tmp_path / "r")
    with pytest.raises(WeftError, match="2 folders make one page; name its file"):
        report(folders=[folder, folder])
    with pytest.raises(WeftError, match="there is no folder"):
        report(folders=[folder], out=tmp_path / "no" / "page.html")
    with pytest.raises(WeftError, match="this is a folder"):
        report(folders=[folder], out=tmp_path)
    with pytest.raises(WeftError, match="found none"):
        report(folders=[])


@pytest.mark.parametrize(
    "damage",
    [{"statistics": 3}, {"variants": None}, {"variants": {"a": {}}}, {"variants": {"a": 3}}, {"claims": {}}],
)
def test_tables_of_another_form_are_refused(comparison, tmp_path, damage):
    facts = json.loads((comparison / "tables.json").read_text())
    (tmp_path / "tables.json").write_text(json.dumps({**facts, **damage}))
    with pytest.raises(WeftError, match="is not what weft compare writes"):
        read_source(tmp_path)


@pytest.mark.parametrize("key", ["statistics", "published", "claims", "runs"])
def test_damaged_parts_become_lines(comparison, tmp_path, key):
    """Each section that needs the part says that it cannot be read; the others are there."""
    facts = json.loads((comparison / "tables.json").read_text())
    damaged = {"statistics": {"contrasts": [3], "tasks": ["task0"]}, "claims": [{}]}
    damaged |= {"published": {"rows": {"a": 3}}, "runs": {"variant 0": {"1": "no identity"}}}
    (tmp_path / "tables.json").write_text(json.dumps({**facts, key: damaged[key]}))
    (tmp_path / "records").symlink_to(comparison / "records")
    check_page(report_html([read_source(tmp_path)]))


def test_a_folder_of_runs_is_one_page(comparison, tmp_path):
    for name in ("b", "a"):
        write_run_folder(tmp_path / name)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "other").mkdir()
    page = report(folders=[tmp_path])
    assert page == tmp_path / FILE
    outline = check_page(page.read_text())
    assert outline.inside("h1") == ["2 reports: a, b"]
    assert outline.inside("h2")[0] == "All runs"


def test_a_folder_of_too_many_runs_is_refused(tmp_path):
    for number in range(21):
        (tmp_path / f"r{number:02}").mkdir()
        (tmp_path / f"r{number:02}" / "run.yaml").write_text("{}")
    with pytest.raises(WeftError, match=r"holds 21 runs and comparisons; .* weft report .*r00 .*r01 … --out"):
        report(folders=[tmp_path])


def test_a_page_of_several_sources_has_a_chapter_for_each(tmp_path):
    made = [large_comparison(tmp_path / name, variants=2, tasks=2, seeds=2) for name in ("one", "two")]
    folders = [folder.rename(tmp_path / name) for folder, name in zip(made, ("1st", "2nd"), strict=True)]
    shown = report(folders, tmp_path / "both.html").read_text()
    outline = check_page(shown)
    chapters = [text for text in outline.inside("h2") if text.startswith(("1st: ", "2nd: "))]
    titles = outline.inside("summary")[:2]  # the contents are the first thing on the page
    assert [title.partition(":")[0] for title in titles] == ["1st", "2nd"]
    assert set(titles) <= set(chapters)
    links = outline.inside("a")
    assert links.count("Scores") == 2
    assert len(chapters) == len(links) - 1 + 2  # all but the one that skips the contents, and two titles


def test_chapters_of_equal_titles_are_apart(comparison, tmp_path):
    shown = report([comparison, comparison], tmp_path / "both.html").read_text()
    titles = check_page(shown).inside("summary")[:2]
    assert titles[1] == f"{titles[0]} (2)"
