"""The documentation of samplers is that of the registry."""

from __future__ import annotations

import json

from tests.support.paths import ROOT
from weft.sampling import SAMPLERS

DOCS = ROOT / "docs"


def setting(name: str, field) -> str:
    """A setting with its default and its description."""
    default = "" if field.is_required() else f": {json.dumps(field.default)}"
    return f"`{name}{default}`: {field.description}"


def row(name: str) -> str:
    """The row of a sampler in docs/reference/training.md."""
    sampler = SAMPLERS[name]
    settings = "<br>".join(setting(key, field) for key, field in sampler.model_fields.items())
    summary = sampler.summary.replace("](", "](../")  # the page is one folder down
    return f"| `{name}` | {summary} | {settings} |"


def test_the_table_of_samplers_is_that_of_the_registry():
    text = (DOCS / "reference" / "training.md").read_text(encoding="utf-8")
    rows = [
        line for line in text.split("## Samplers")[1].split("## ")[0].split("\n") if line.startswith("| `")
    ]
    expected = [row(name) for name in SAMPLERS]
    assert rows == expected, "docs/reference/training.md should have these rows:\n" + "\n".join(expected)


def test_the_run_file_names_every_sampler():
    text = (DOCS / "run-file.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.split("\n") if line.startswith("| sampler |")]
    assert [name for name in SAMPLERS if f"`{name}`" not in line] == []


def test_every_sampler_and_setting_is_described():
    for name in SAMPLERS:
        assert SAMPLERS[name].summary
        for key, field in SAMPLERS[name].model_fields.items():
            assert field.description, f"{name}.{key}"
