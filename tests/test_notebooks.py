"""The notebooks run from top to bottom, and what is stored of them is what they print."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from tests.support.paths import ROOT
from tests.support.site import notebooks

FILES = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
names = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def code_of(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shape_of(cell):
    """What a cell prints, without numbers: which cells print, and how."""
    return [output["output_type"] for output in cell["outputs"]]


@names
def test_stored_outputs_are_of_a_whole_run(file):
    """`python docs/weft_site --notebooks` runs them again."""
    notebook = notebooks.read_notebook(file)
    counts = [cell["execution_count"] for cell in code_of(notebook)]
    assert counts == list(range(1, len(counts) + 1)), "run the notebook again"
    text = "".join(notebooks.printed(output) for cell in code_of(notebook) for output in cell["outputs"])
    assert len(text) > 200
    assert "Traceback" not in text
    assert not re.search(r"site-packages|/home/|/root/|/tmp/|/work/", text)


@names
def test_a_notebook_begins_with_a_title_and_names_what_it_needs(file):
    first = notebooks.read_notebook(file)["cells"][0]
    assert first["cell_type"] == "markdown"
    assert "".join(first["source"]).startswith("# ")


@pytest.mark.slow
@names
def test_a_notebook_runs(file, tmp_path):
    if find_spec("nbclient") is None or find_spec("ipykernel") is None:
        pytest.skip("needs the extra docs")
    stored = notebooks.read_notebook(file)
    again = notebooks.run_notebook(file, tmp_path)
    assert [shape_of(cell) for cell in code_of(again)] == [shape_of(cell) for cell in code_of(stored)]


def test_a_page_of_a_notebook_shows_code_and_output():
    stream = {"output_type": "stream", "name": "stdout", "text": ["0 %\r", "100 %\n", "\x1b[1mdone\x1b[0m\n"]}
    drawing = {"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": ["<svg/>"]}}
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["%%bash\n", "weft check run.yaml"], "outputs": [stream, drawing]},
    ]
    page, pictures = notebooks.notebook_page({"cells": cells}, "n")
    assert "# Title\n\n```bash\nweft check run.yaml\n```" in page
    assert "\n100 %\ndone\n" in page
    assert pictures == {"n-1.svg": "<svg/>"}
    assert "(n-1.svg)" in page
