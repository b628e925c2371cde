"""The pages of docs/results that come from packed records are what their command makes from them."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.support.paths import ROOT
from weft import cli

RESULTS = ROOT / "docs" / "results"
PAGES = sorted(RESULTS / f"{file.stem}.md" for file in (RESULTS / "records").glob("*.records"))


def command_of(page):
    """The last command of a page: the one that makes it from records."""
    *_, last = re.findall(r"^weft (compare .*--records .*)$", page.read_text(encoding="utf-8"), re.M)
    return shlex.split(last)


@pytest.mark.slow
@pytest.mark.parametrize("name", [page.stem for page in PAGES])
def test_a_page_is_what_its_command_makes(name, tmp_path, monkeypatch):
    committed = RESULTS / f"{name}.md"
    command = command_of(committed)
    place = command.index("--page") + 1
    assert ROOT / command[place] == committed
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "docs" / "results" / "records").symlink_to(RESULTS / "records")
    monkeypatch.chdir(tmp_path)
    assert cli.run([*command, "--quiet"]) == 0
    for suffix in (".md", ".html"):
        made = (tmp_path / command[place]).with_suffix(suffix).read_text(encoding="utf-8")
        assert made == committed.with_suffix(suffix).read_text(encoding="utf-8"), (
            f"docs/results/{name}{suffix} is not what its command makes; repeat it: weft {' '.join(command)}"
        )


def test_web_pages_are_linked_and_small():
    assert PAGES
    for page in PAGES:
        web = page.with_suffix(".html")
        assert f"]({web.name})" in page.read_text(encoding="utf-8")
        assert web.stat().st_size < 500_000
