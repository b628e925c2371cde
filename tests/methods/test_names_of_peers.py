"""The tables of docs/methods.md: a line for every method, and names of PEFT and adapters that exist."""

from __future__ import annotations

import ast
import inspect
import json
import re
from importlib.metadata import version

import peft
import peft.optimizers
import pytest
import yaml
from packaging.version import Version

from tests.support.golden import golden
from tests.support.pages import SPAN, anchors
from tests.support.paths import ROOT
from weft.methods import METHODS, build_method

PAGE = ROOT / "docs" / "methods.md"
WRITTEN_FOR = re.search(r"PEFT\]\([^)]*\) \((\d+\.\d+)\)", PAGE.read_text(encoding="utf-8"))
"""The release of PEFT that the page's tables are of."""

of_that_release = pytest.mark.skipif(
    WRITTEN_FOR is None or Version(version("peft")) < Version(WRITTEN_FOR[1]),
    reason="the installed PEFT is older than the one of the page's tables",
)


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    text = PAGE.read_text(encoding="utf-8")
    body = text.partition(f"\n{heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", body, re.MULTILINE)
    assert table is not None, heading
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[0].splitlines()[2:]]


def calls_of(cell: str) -> list[tuple[str, dict[str, object]]]:
    """`Name(setting=value)` in a cell, as (name, settings)."""
    calls = []
    for span in SPAN.findall(cell):
        call = ast.parse(span, mode="eval").body
        assert isinstance(call, ast.Call), f"{span} should be a call"
        assert isinstance(call.func, ast.Name)
        calls.append((call.func.id, {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}))
    return calls


def test_the_page_says_when_to_take_each_method():
    lines = rows_of("## When to take it")
    assert sorted(SPAN.findall(cells[0])[0] for cells in lines) == sorted(METHODS)
    assert all(len(cells) == 2 and len(cells[1]) > 20 for cells in lines)
    assert "when-to-take-it" in anchors(PAGE)


@pytest.mark.parametrize("heading", ["### PEFT's configurations", "### Configurations of adapters"])
def test_methods_of_the_tables_can_be_built(heading):
    """Every method and every setting of it exists, and the values are accepted."""
    for theirs, ours, *_ in rows_of(heading):
        methods = SPAN.findall(ours)
        assert methods, f"{theirs} has no method beside it"
        for text in methods:
            build_method(yaml.safe_load(text))


def test_settings_of_the_table_exist():
    for theirs, ours, _ in rows_of("### PEFT's settings"):
        for text in SPAN.findall(ours):
            build_method({"use": "lora", **yaml.safe_load(f"{{{text}}}")}), theirs


@of_that_release
def test_names_of_peft_exist():
    for cells in rows_of("### PEFT's configurations"):
        for name, settings in calls_of(cells[0]):
            made = getattr(peft, name, None) or getattr(peft.optimizers, name)
            assert set(settings) <= set(inspect.signature(made).parameters), name


@of_that_release
def test_settings_of_peft_exist():
    settings, methods = set(inspect.signature(peft.LoraConfig).parameters), dir(peft.LoraModel)
    for cells in rows_of("### PEFT's settings"):
        (span,) = SPAN.findall(cells[0])
        if span.endswith(")"):
            ((name, _),) = calls_of(cells[0])
            assert name in methods
            continue
        key, _, value = span.partition("=")
        assert key in settings
        peft.LoraConfig(**{key: ast.literal_eval(value)})


@pytest.mark.skipif(
    WRITTEN_FOR is None or not version("peft").startswith(f"{WRITTEN_FOR[1]}."),
    reason="the installed PEFT is not the release of the page's tables",
)
def test_every_tuner_of_peft_has_a_line():
    listed = {name for cells in rows_of("### PEFT's configurations") for name, _ in calls_of(cells[0])}
    tuners = {config.__name__ for config in peft.mapping.PEFT_TYPE_TO_CONFIG_MAPPING.values()}
    assert tuners - listed == set()


def test_every_configuration_of_adapters_has_a_line():
    """As recorded: the package is not installed beside weft."""
    configs = json.loads((golden("adapters") / "names.json").read_text(encoding="utf-8"))["configs"]
    listed = [call for cells in rows_of("### Configurations of adapters") for call in calls_of(cells[0])]
    for name, settings in listed:
        assert set(settings) <= set(configs[name]), name
    assert {name for name, _ in listed} == set(configs)
