"""The documentation site: complete, with links that hold, and built without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer.main

import weft
from tests.support.paths import ROOT
from tests.support.site import SITE, api, commands, docstrings, links, stage
from weft.cli.app import build_app

CONTENTS = stage.contents()


# --- what is on it -------------------------------------------------------------------------------------


def test_every_page_and_notebook_is_in_the_table_of_contents_once():
    listed = [entry for section in CONTENTS["pages"].values() for entry in section]
    pages = {
        str(file.relative_to(ROOT)) for file in (ROOT / "docs").rglob("*.md") if "_build" not in file.parts
    }
    notebooks = {str(file.relative_to(ROOT)) for file in (ROOT / "examples" / "notebooks").glob("*.ipynb")}
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) == pages | notebooks | set(stage.GENERATED) | {"CONTRIBUTING.md", "CHANGELOG.md"}


def test_every_public_name_has_a_section_of_the_reference():
    """A new name in `weft.__all__` fails here until docs/weft_site/contents.yaml says where it belongs."""
    listed = [name for section in CONTENTS["names"].values() for name in section]
    assert sorted(listed) == sorted(weft.__all__)


def test_the_reference_has_every_public_name():
    text = "\n".join(text for _, text in api.reference_pages(CONTENTS["names"]))
    described = set(re.findall(r"^\.\. (?:auto|py:)(?:class|function|data):: (\S+)$", text, re.MULTILINE))
    names = api.public_names()
    assert {"weft.Model", "weft.adapters.Adapter", "weft.interop.EXPORTERS"} <= set(names)
    assert set(names) <= described


def test_every_public_name_of_the_modules_has_a_docstring():
    """Of registries, the line behind them in the source."""
    for name in api.public_names():
        module, _, short = name.rpartition(".")
        thing = getattr(sys.modules[module], short)
        if isinstance(thing, type) or callable(thing):
            assert (thing.__doc__ or "").strip(), f"{name} has no docstring"


def test_the_reference_has_every_command():
    page = commands.command_page()
    program = typer.main.get_command(build_app())
    for name, command in program.commands.items():
        assert f"\n## weft {name}\n" in page
        for option in command.params:
            if option.param_type_name == "option" and "--help" not in option.opts:
                assert option.opts[0] in page, f"weft {name} {option.opts[0]}"


# --- how pages become pages of the site ----------------------------------------------------------------


def test_links_are_moved_and_code_is_not():
    text = (
        "[a](../CHANGELOG.md#x) [`b [c]`](low.md) `[d](low.md)` [e](https://x.y) [f](#here) [g](../tests)\n"
    )
    text += "```\n[h](low.md)\n```\n![i](pictures/weft.svg)\n"
    places = {
        "CHANGELOG.md": "changes.md",
        "docs/low.md": "low.md",
        "docs/pictures/weft.svg": "pictures/weft.svg",
    }
    moved = links.moved_links(text, "docs/page.md", "deep/page.md", places.get)
    assert moved == (
        "[a](../changes.md#x) [`b [c]`](../low.md) `[d](low.md)` [e](https://x.y) [f](#here) g\n"
        "```\n[h](low.md)\n```\n![i](../pictures/weft.svg)\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`x` and a*b", r"``x`` and a\*b"),
        ("`task`s with W_ and |v|", r"``task``\ s with W\_ and \|v\|"),
        ("over `two\n    lines` of", "over ``two lines`` of"),
        ("Example:\n    >>> f(`x`, *y)", "Example:\n    >>> f(`x`, *y)"),
    ],
)
def test_docstrings_are_read_as_plain_text_with_code(text, expected):
    assert "\n".join(docstrings.as_rst(text.split("\n"))) == expected


def test_settings_show_their_fields():
    lines = docstrings.fields_of(weft.Training)
    assert len([line for line in lines if line.startswith(":param ")]) == len(weft.Training.model_fields)
    assert any(line.startswith(":param batch_size:") and "``32``" in line for line in lines)


def test_every_source_is_staged(tmp_path):
    stage.Stage(tmp_path).write()
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert index.startswith("# weft\n")
    assert "(pictures/weft.svg)" in index
    for name in re.findall(r"^[\w/.-]+$", index.partition("```{toctree}")[2], re.MULTILINE):
        assert (tmp_path / f"{name}.md").is_file(), name
    assert (tmp_path / "notebooks" / "first-model.md").is_file()


# --- the site itself -----------------------------------------------------------------------------------


class Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if found.get("id"):
            self.anchors.add(found["id"])
        for key in ("href", "src"):
            if found.get(key):
                self.links.append(found[key])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning of Sphinx is an error. The network is not used."""
    if any(find_spec(name) is None for name in ("sphinx", "myst_parser", "furo")):
        pytest.skip("needs the extra docs")
    out = tmp_path_factory.mktemp("site")
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    built = subprocess.run(
        [sys.executable, str(SITE), "--out", str(out)],
        env=os.environ | nowhere,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return out / "html"


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_has_every_name(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    names = {line.split()[0] for line in zlib.decompress(inventory).decode().splitlines()}
    missing = set(api.public_names()) - names
    assert not missing, f"not in the reference: {sorted(missing)}"
    assert {"weft.Model.predict", "weft.Model.save", "weft.Client.predict"} <= names


@pytest.mark.slow
def test_links_of_the_site_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}
    pages = {file: page for file, page in pages.items() if "_downloads" not in file.parts}
    assert len(pages) > 60
    wrong = []
    for file, page in pages.items():
        for link in page.links:
            if re.match(r"(https?|mailto|data):", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (file.parent / name.partition("?")[0]).resolve() if name else file
            lacks = anchor and target in pages and anchor not in pages[target].anchors
            if not target.exists() or lacks:
                wrong.append(f"{file.name}: {link}")
        text = file.read_text(encoding="utf-8")
        if re.search(r"<(?:script|img|link)[^>]+(?:src|href)=\"(?:https?:)?//", text):
            wrong.append(f"{file.name} loads something from the network")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.slow
def test_nothing_of_the_machine_is_on_the_site(site):
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert str(ROOT) not in text, file.name
        assert str(Path.home()) + "/" not in text, file.name
        assert "site-packages" not in text, file.name
