"""`weft compare` on the command line."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec

import pytest

from tests.support.outline import check_page
from tests.support.tiny_grid import write_grid
from weft import cli


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return write_grid(folder, "seeds: 1\naxes: {method: [full, lora]}\nbaseline: full\n", steps=3)


@pytest.mark.usefixtures("warm_workers")
def test_a_grid_from_a_dry_run_to_packed_records(grid, tmp_path, capsys):
    out = str(tmp_path / "out")
    call = ["compare", str(grid), "--out", out, "--device", "cpu"]
    assert cli.run([*call, "--dry-run"]) == 0
    listed = capsys.readouterr().out
    assert "2 of 2 runs to do; about" in listed
    assert "lora · seed 1" in listed
    assert not (tmp_path / "out").exists()

    assert cli.run([*call, "--pack", str(tmp_path / "all.records")]) == 0
    shown = capsys.readouterr()
    assert "none: needs at least 3 seeds; has 1" in shown.out
    assert "all.records: 2 records" in shown.err
    assert "[2/2]" in shown.err

    assert cli.run([*call, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["variants"]) == ["full", "lora"]

    assert cli.run([*call, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["to_do"] == 0

    there = [*call[:3], str(tmp_path / "there"), "--unpack", str(tmp_path / "all.records")]
    there += ["--unpack", str(tmp_path / "all.records"), "--dry-run"]
    assert cli.run(there) == 0
    shown = capsys.readouterr()
    assert "2 new records, 0 that were there already" in shown.err
    assert "0 of 2 runs to do" in shown.out


def test_a_page_has_no_name_of_a_web_page(grid, tmp_path, capsys):
    """It would be overwritten by the web page beside it. Nothing is trained first."""
    out = tmp_path / "out"
    assert cli.run(["compare", str(grid), "--out", str(out), "--page", str(tmp_path / "a.html")]) == 2
    assert f"--page {tmp_path / 'a.md'}" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.usefixtures("warm_workers")
def test_a_page_from_packed_records_alone(grid, tmp_path, capsys):
    packed = str(tmp_path / "all.records")
    first = ["compare", str(grid), "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert cli.run([*first, "--minutes", "1e-9", "--pack", packed]) == 130
    assert (
        "the 1e-09 minutes are over; 0 of 2 runs are done\n  to continue, repeat" in capsys.readouterr().err
    )
    assert not (tmp_path / "all.records").exists()
    assert cli.run([*first, "--minutes", "60", "--pack", packed]) == 0
    trained = (tmp_path / "out" / "tables.csv").read_text()
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("grid.yaml", "run.yaml"):
        shutil.copy(grid.parent / name, bare)
    page = tmp_path / "page.md"
    capsys.readouterr()
    there = ["compare", str(bare / "grid.yaml"), "--out", str(tmp_path / "there"), "--records", packed]
    assert cli.run([*there, "--page", str(page)]) == 0
    assert f"{page}: written" in capsys.readouterr().err
    assert (tmp_path / "there" / "tables.csv").read_text() == trained
    web = tmp_path / "page.html"
    link = f"[{web.name}]({web.name}) is a web page with the tables and their pictures"
    parts = page.read_text().split("\n\n")
    assert [part for part in parts if not part.startswith(link)] == (
        (tmp_path / "there" / "tables.md").read_text().split("\n\n")
    )
    assert link in page.read_text()
    outline = check_page(web.read_text())
    assert "--records all.records --page page.md" in outline.inside("p")[-1]
    assert str(tmp_path) not in web.read_text()
    assert "--records all.records --page page.md" in page.read_text()
    assert cli.run([*there, "--pack", packed]) == 2
    assert "--records makes tables alone" in capsys.readouterr().err


@pytest.mark.usefixtures("warm_workers")
def test_a_packed_file_loses_no_records(grid, tmp_path, capsys):
    """A page names the file beside it, and whoever repeats its first command has that file."""
    packed = tmp_path / "all.records"
    call = ["compare", str(grid), "--device", "cpu", "--pack", str(packed)]
    assert cli.run([*call, "--out", str(tmp_path / "out")]) == 0
    before = packed.read_bytes()
    # another folder, and no time: the records are taken over
    assert cli.run([*call, "--out", str(tmp_path / "there"), "--minutes", "1e-9"]) == 0
    assert "2 new records" in capsys.readouterr().err
    assert packed.read_bytes() == before
    # runs of other settings
    assert cli.run([*call, "train.lr=1.0e-3", "--out", str(tmp_path / "there"), "--minutes", "1e-9"]) == 130
    assert cli.run([*call, "train.lr=1.0e-3", "--out", str(tmp_path / "there")]) == 2
    assert "the file holds 2 records of other runs, and would lose them" in capsys.readouterr().err
    assert packed.read_bytes() == before


@pytest.mark.usefixtures("warm_workers")
def test_files_of_one_name_in_two_folders_and_a_grid_whose_tables_fail(tmp_path, capsys):
    good = write_grid(tmp_path, "seeds: 2\n", steps=2)
    (tmp_path / "b").mkdir()
    same = tmp_path / "b" / "grid.yaml"
    same.write_text(good.read_text().replace("base: run.yaml", "base: ../run.yaml"))
    assert cli.run(["compare", str(good), str(same)]) == 2
    assert "are both called 'grid', which names their chapters" in capsys.readouterr().err
    # variants whose rows differ cannot be compared; the tables of the other grid are there all the same
    other = tmp_path / "b" / "other.yaml"
    half = "tasks.cat.halves: true, tasks.same.halves: true, tasks.count.halves: true"
    other.write_text(f"base: ../run.yaml\nvariants: {{all: {{}}, half: {{{half}}}}}\nbaseline: all\n")
    out = tmp_path / "out"
    assert cli.run(["compare", str(other), str(good), "--out", str(out), "--device", "cpu"]) == 2
    shown = capsys.readouterr().err
    assert "evaluate both on the same rows" in shown
    assert f"the tables of the other grids are in {out}" in shown
    assert (out / "grid" / "tables.md").is_file()


@pytest.mark.usefixtures("warm_workers")
def test_a_run_that_is_trained_again_is_on_both_pages(grid, tmp_path, capsys):
    page = tmp_path / "page.md"
    call = ["compare", str(grid), "--out", str(tmp_path / "out"), "--device", "cpu", "--again", "1"]
    assert cli.run([*call, "--page", str(page)]) == 0
    shown = capsys.readouterr()
    assert "runs that were trained again" in shown.out
    assert "[1/1]" in shown.err
    assert "## Runs that were trained again\n| run | average |" in page.read_text()
    words = "1 of 1 runs that were trained again agrees with its record"
    assert words in (tmp_path / "page.html").read_text()
    assert " --again 1\n" in page.read_text()
    # the page names what was requested, even if there was no time for it
    assert cli.run([*call[:-1], "2", "--minutes", "1e-9", "--page", str(page)]) == 0
    assert " --again 2\n" in page.read_text()


@pytest.mark.usefixtures("warm_workers")
def test_a_failed_run_is_a_row_with_its_reason(grid, tmp_path, capsys):
    call = ["compare", str(grid), "train.lr=1.0e+30", "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert cli.run(call) == 1
    shown = capsys.readouterr()
    assert "full, seed 1 failed: step" in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.usefixtures("warm_workers")
def test_several_grids_run_together_and_make_one_page(tmp_path, capsys, monkeypatch):
    text = "seeds: 3\nvariants: {run: {method: full}}\nclaims: [{text: It runs, test: average(run) >= 0}]\n"
    one = write_grid(tmp_path, text, steps=3).rename(tmp_path / "one.yaml")
    text = "seeds: 3\naxes: {method: [full, lora]}\nbaseline: full\ncautions: [Rows are invented.]\n"
    two = write_grid(tmp_path, text, steps=3).rename(tmp_path / "two.yaml")
    two.write_text(two.read_text().replace("title: tiny", "title: Full or LoRA?"))
    words = tmp_path / "words.md"
    words.write_text("# Tiny runs\n\nLoRA gains {{two: average(lora) - average(full) : +.2f}} points.\n")
    call = ["compare", str(one), "train.seed=1", str(two), "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert cli.run([*call, "--dry-run", "--no-estimate"]) == 0
    shown = capsys.readouterr().out
    assert "6 of 6 runs to do" in shown  # three of the nine are in both grids
    page = tmp_path / "page.md"
    packed = tmp_path / "all.records"
    assert cli.run([*call, "--jobs", "2", "--pack", str(packed)]) == 0
    assert "[6/6]" in capsys.readouterr().err
    made = ["--page", str(page), "--summary", str(words), "--records", str(packed)]
    assert cli.run([*call, *made]) == 0
    shown = capsys.readouterr()
    assert f"tables: {tmp_path / 'out' / 'two' / 'tables.md'}" in shown.out
    text = page.read_text()
    assert text.startswith("# Tiny runs\n\nLoRA gains ")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## tiny",
        "## Full or LoRA?",
        "## What must not be concluded",
        "## How to read the tables",
        "## Repeat it",
    ]
    assert text.count("### Average scores\n") == 2
    assert text.count("- Rows are invented.\n") == 1
    notes = text.partition("## How to read the tables\n")[2].partition("\n\n")[0].splitlines()
    assert len(notes) >= 2
    assert all(text.count(note) == 1 for note in notes)
    assert "### Notes\n- Verdicts are by the 95 % interval" in text  # the first grid has no verdicts
    assert "weft compare one.yaml two.yaml train.seed=1 --out runs/all --pack all.records\n" in text
    again = (
        "weft compare one.yaml two.yaml train.seed=1 --records all.records --summary words.md --page page.md"
    )
    assert again in text
    web = page.with_suffix(".html").read_text()
    outline = check_page(web)
    assert outline.inside("h1") == ["Tiny runs"]
    assert "Full or LoRA?" in web

    # from the records alone, by the command that the page names, where the data is not
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("one.yaml", "two.yaml", "run.yaml", "words.md", "all.records"):
        shutil.copy(tmp_path / name, bare)
    monkeypatch.chdir(bare)
    assert cli.run([*again.removeprefix("weft ").split(), "--quiet"]) == 0
    assert (bare / "page.md").read_text() == text
    assert (bare / "page.html").read_text() == web

    capsys.readouterr()
    assert cli.run([*call, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["grids"]) == ["one", "two"]
    assert cli.run([*call, "--dry-run", "--no-estimate", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["grid"] for run in runs] == ["one"] * 3 + ["two"] * 6
    assert cli.run(["report", str(tmp_path / "out"), "--out", str(tmp_path / "report.html")]) == 0
    assert "Full or LoRA?" in (tmp_path / "report.html").read_text()
    # a later call of one grid has its tables in the folder itself: a report has them too
    assert (
        cli.run(["compare", str(one), "train.seed=1", "--out", str(tmp_path / "out"), "--device", "cpu"]) == 0
    )
    assert cli.run(["report", str(tmp_path / "out"), "--out", str(tmp_path / "report.html")]) == 0
    assert "<title>3 reports: " in (tmp_path / "report.html").read_text()


NEEDS_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.yaml"], "there is no grid 'none.yaml'"),
        (["{grid}", "seeds=x"], "command line, seeds: expected the number of seeds"),
        (["{grid}", "train.stepz=3"], "train.stepz"),
        (["{grid}", "train.steps"], "'train.steps' is neither a setting nor a grid; expected KEY=VALUE"),
        (["{grid}", "{grid}"], "grid.yaml is named twice"),
        (["{grid}", "none.yaml"], "there is no grid 'none.yaml'"),
        (
            ["{grid}", "--page", "none/page.md"],
            "--page none/page.md: there is no folder none; create it first",
        ),
        (["{grid}", "--pack", "none/a.records"], "--pack none/a.records: there is no folder none"),
        (["{grid}", "recipe:pals"], "there is no recipe 'pals'"),
        (["{grid}", "--unpack", "none.records"], "there is no file 'none.records'"),
        (["{grid}", "--jobs", "0"], "--jobs"),
        (["{grid}", "--again", "0"], "--again"),
        (["{grid}", "--again", "1", "--dry-run"], "--again trains runs on this machine; leave out --dry-run"),
        (["{grid}", "--out", "{grid}"], "is a file"),
        (["{grid}", "--gpus-per-cell", "0.25"], "--gpus-per-cell needs --on ray"),
        (["{grid}", "--on", "slurm"], "--on slurm: unknown; expected ray"),
        (["{grid}", "--on", "ray", "--jobs", "2"], "--jobs with --on ray"),
        (["{grid}", "--on", "ray", "--cpus-per-cell", "0"], "--cpus-per-cell must be above 0; found 0"),
        pytest.param(
            ["{grid}", "--on", "ray", "--address", "nowhere"],
            "--address nowhere: expected HOST:PORT",
            marks=NEEDS_RAY,
        ),
        pytest.param(
            ["{grid}", "--on", "ray", "--address", "127.0.0.1:1"], "nothing answers there", marks=NEEDS_RAY
        ),
    ],
)
def test_mistakes(grid, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    filled = [argument.replace("{grid}", str(grid)) for argument in arguments]
    assert cli.run(["compare", *filled]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert not (tmp_path / "runs").exists()


def test_a_missing_ray_is_named_with_its_extra(grid, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert cli.run(["compare", str(grid), "--on", "ray", "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'weft[ray]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
