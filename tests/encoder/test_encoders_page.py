"""docs/encoders.md lists the families that there are, with what their tables say."""

from __future__ import annotations

import re

import pytest
import torch
from transformers import CONFIG_MAPPING

import weft
from tests.support.pages import SPAN
from tests.support.paths import ROOT
from tests.support.tiny import CONFIGS, CORE_CONFIGS, tiny
from weft.encoder.anatomy import sites_of
from weft.encoder.families import FAMILIES
from weft.encoder.sites import KINDS

PAGE = (ROOT / "docs" / "encoders.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SOMETIMES = ("embeddings_norm", "final_norm", "pooler", "ffn_gate")
"""The sites that not every family has."""


def cells_under(heading: str) -> list[list[str]]:
    table = re.search(r"(?:^\|.*\n)+", PAGE.partition(f"\n## {heading}\n")[2], re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[0].splitlines()[2:]]


ROWS = {SPAN.findall(cells[1])[0]: cells for cells in cells_under("Families")}


def test_every_family_has_a_row():
    assert sorted(ROWS) == sorted(FAMILIES)


@pytest.mark.parametrize("member", FAMILIES)
def test_a_row_is_what_the_table_says(member):
    anatomy = FAMILIES[member]
    _, _, norms, offered, lacked, since, tests, remark = ROWS[member]
    places = {*anatomy.in_block, *anatomy.outside}
    assert norms == ("before" if anatomy.pre_norm else "after")
    assert SPAN.findall(offered) == [kind for kind in SOMETIMES if kind in places]
    assert SPAN.findall(lacked) == [kind for kind in SOMETIMES if kind not in places]
    assert since == (anatomy.since or "")
    assert tests == ("whole" if member in {name for name, _ in CONFIGS.values()} else "core")
    assert ("#albert" in remark) is anatomy.repeats
    for key, value in anatomy.only.items():
        assert f"`{key}: {str(value).lower()}`" in remark


def test_every_other_site_is_offered_by_every_family():
    listed = {
        name for cells in cells_under("Sites that every family offers") for name in SPAN.findall(cells[0])
    }
    assert listed == set(KINDS) - set(SOMETIMES)
    for family, (model_type, _) in (CONFIGS | CORE_CONFIGS).items():
        if model_type in CONFIG_MAPPING:
            assert listed <= {site.kind for site in sites_of(tiny(family))}, family


def test_the_readme_names_every_family():
    (row,) = [line for line in README.splitlines() if line.startswith("| [encoders](docs/encoders.md)")]
    for cells in ROWS.values():
        assert re.sub(r" v\d.*", "", cells[0]) in row, cells[0]
    assert f"{len(list(FAMILIES))} families" in row


def test_what_the_page_says_of_albert():
    task = [weft.Task("a", size=2)]
    counts = {
        name: weft.Model(f"random:{name}", task, "lora", device="meta").ledger()["per_task"]["a"]
        for name in ("albert-base", "bert-base")
    }
    assert f"{counts['albert-base']:,} parameters per task" in PAGE
    assert f"{counts['bert-base']:,} to `random:bert-base`" in PAGE
    model = weft.Model(tiny("albert", layers=1), task, {"use": "houlsby", "size": 3})
    assert model.num_layers == 1
    (adapter,) = [adapter for site, adapter in model.placements if site.kind == "ffn_delta"]
    runs = []
    adapter.register_forward_hook(lambda *_: runs.append(1))
    ids = torch.ones(1, 4, dtype=torch.long)
    model.eval().run(input_ids=ids, attention_mask=ids, task=torch.zeros(1, dtype=torch.long))
    assert len(runs) == model.encoder.config.num_hidden_layers == 2
