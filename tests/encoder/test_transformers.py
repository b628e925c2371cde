"""What weft relies on inside transformers: a release that changes it fails here and names it.

pyproject.toml states the range of versions; docs/design.md says how it is chosen.
"""

from __future__ import annotations

import pytest
import transformers.masking_utils
from transformers import CONFIG_MAPPING

from tests.support.internals import SOURCE, Internal, attention, imports, loading, modules
from tests.support.internals_of_families import albert, deberta
from tests.support.tiny_run import save_encoder
from weft.encoder.families import FAMILIES as KNOWN

FAMILIES = [family for family in KNOWN if family in CONFIG_MAPPING]
"""The families that this transformers has; test_families.py checks which these are."""


def assert_all_hold(internals: list[Internal]) -> None:
    assert internals
    problems = [problem for internal in internals if (problem := internal.problem()) is not None]
    assert not problems, "\n" + "\n".join(problems)


def test_every_import():
    assert_all_hold(imports())


@pytest.mark.parametrize("member", FAMILIES)
def test_the_modules_of_every_family(member):
    assert_all_hold(modules(member))


def test_attention_and_masks():
    assert_all_hold(attention())


def test_relative_positions_of_deberta():
    assert_all_hold(deberta())


def test_repeated_blocks_of_albert():
    assert_all_hold(albert())


def test_loading(tmp_path):
    assert_all_hold(loading(save_encoder(tmp_path)))


def test_every_entry_names_a_file_of_weft(tmp_path):
    families = [internal for family in FAMILIES for internal in modules(family)]
    for internal in (
        *imports(),
        *families,
        *attention(),
        *deberta(),
        *albert(),
        *loading(save_encoder(tmp_path)),
    ):
        assert (SOURCE / internal.file.partition(":")[0]).is_file(), internal.file


def test_what_moved_is_named(monkeypatch):
    """A name that is gone: the message holds the version, the name, its module and the file."""
    monkeypatch.delattr(transformers.masking_utils, "sdpa_mask")
    (problem,) = [problem for internal in imports() if (problem := internal.problem()) is not None]
    assert problem.startswith(f"transformers {transformers.__version__}: expected the name sdpa_mask in ")
    assert "transformers.masking_utils" in problem
    assert "see src/weft/acceleration/attention.py:" in problem


def test_a_module_that_moved_is_named(monkeypatch):
    from dataclasses import replace

    anatomy = replace(KNOWN["bert"], in_block={**KNOWN["bert"].in_block, "query": "attention.self.q"})
    monkeypatch.setattr("tests.support.internals.FAMILIES", {"bert": anatomy})
    (problem,) = [problem for internal in modules("bert") if (problem := internal.problem()) is not None]
    assert (
        "bert: a module 'attention.self.q' in a block, for the site 'query'; see src/weft/encoder" in problem
    )
