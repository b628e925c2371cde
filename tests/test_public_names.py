"""The public names: each is there, has a docstring, and says how it is used."""

from __future__ import annotations

import inspect

import pytest

import weft
from weft.facade import ModelFacade

WITH_EXAMPLE = ["assemble", "check", "evaluate", "load_run", "report"]


@pytest.mark.parametrize("name", weft.__all__)
def test_every_public_name_has_a_docstring(name):
    one = getattr(weft, name)
    doc = one.__dict__.get("__doc__") if inspect.isclass(one) else one.__doc__
    assert doc, f"weft.{name} has no docstring"
    # what a dataclass writes by itself is its signature
    assert not doc.startswith(f"{name}("), f"weft.{name} has no docstring of its own"
    assert len(doc.split()) >= 4


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_functions_on_whole_runs_show_an_example(name):
    doc = getattr(weft, name).__doc__
    assert "Example:" in doc
    assert f"weft.{name}(" in doc
    assert "Args:" in doc


def test_names_are_sorted_and_listed():
    assert weft.__all__ == sorted(weft.__all__)
    assert set(weft.__all__) <= set(dir(weft))


def test_methods_of_a_model_have_docstrings():
    """Those of weft's own classes; what `nn.Module` has is documented there."""
    own = {name for one in (weft.Model, ModelFacade) for name in vars(one) if not name.startswith("_")}
    assert {"embed", "predict", "from_pretrained", "save_pretrained", "print_trainable_parameters"} <= own
    bare = [name for name in sorted(own) if not inspect.getdoc(getattr(weft.Model, name))]
    assert not bare
