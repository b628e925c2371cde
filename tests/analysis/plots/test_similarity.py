"""The heat maps: an SVG that holds names and values as text, a PNG that opens."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from weft.analysis.plots.heat_map import cell_side, label_size
from weft.analysis.plots.similarity import panels_of, write_picture
from weft.analysis.similarity import Similarity, SiteSimilarity
from weft.encoder.sites import Site
from weft.errors import WeftError

SVG = "{http://www.w3.org/2000/svg}"


def random_matrix(tasks, seed):
    """Cosines of random vectors."""
    vectors = np.random.default_rng(seed).normal(size=(tasks, 6))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.clip(vectors @ vectors.T, -1, 1)


def found_of(tasks=4, sites=(("query", 0), ("query", 1), ("ffn_out", 1)), prefix="task"):
    """Weights and biases of `query`, biases alone of the others."""
    made = [
        SiteSimilarity(
            Site(kind, layer, 4, 4, ""),
            random_matrix(tasks, number) if kind == "query" else None,
            random_matrix(tasks, number + 50),
        )
        for number, (kind, layer) in enumerate(sites)
    ]
    return Similarity(tuple(f"{prefix}{n}" for n in range(tasks)), tuple(made))


def texts_of(file):
    return [element.text for element in ElementTree.parse(file).iter(f"{SVG}text")]


def test_panels():
    found = found_of()
    (row,) = panels_of(found)
    assert [title for title, _ in row] == ["weights (mean of 2 sites)", "biases (mean of 3 sites)"]
    np.testing.assert_array_equal(row[0].matrix, found.average("weight"))
    first, second = panels_of(found, ["ffn_out", "query"])
    assert [title for title, _ in first] == ["ffn_out, biases"]
    assert [title for title, _ in second] == [
        "query, weights (mean of 2 layers)",
        "query, biases (mean of 2 layers)",
    ]
    np.testing.assert_array_equal(second[1].matrix, found.average("bias", "query"))


def test_the_svg_has_names_and_values_as_text(tmp_path):
    found = found_of()
    write_picture(found, tmp_path / "a.svg")
    texts = texts_of(tmp_path / "a.svg")
    for name in found.tasks:
        assert texts.count(name) == 4  # both axes of both panels
    for part in ("weight", "bias"):
        for value in found.average(part).flatten():
            assert f"{value:.2f}".replace("-0.00", "0.00") in texts
    assert texts.count("1.00") == 8
    assert "weights (mean of 2 sites)" in texts


def test_rows_of_kinds(tmp_path):
    write_picture(found_of(), tmp_path / "a.svg", ["query", "ffn_out"])
    texts = texts_of(tmp_path / "a.svg")
    assert [t for t in texts if ", weights" in t or ", biases" in t] == [
        "query, weights (mean of 2 layers)",
        "query, biases (mean of 2 layers)",
        "ffn_out, biases",
    ]
    assert texts.count("task0") == 6


def test_equal_similarities_give_equal_bytes(tmp_path, monkeypatch):
    import matplotlib

    write_picture(found_of(), tmp_path / "a.svg")
    with matplotlib.rc_context({"axes.titlecolor": "red", "svg.fonttype": "path", "font.size": 20}):
        write_picture(found_of(), tmp_path / "b.svg")
        assert matplotlib.rcParams["font.size"] == 20  # what a caller has set is left as it was
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert b"dc:date" not in (tmp_path / "a.svg").read_bytes()


def test_what_is_undefined_is_hatched_and_has_no_number(tmp_path):
    found = found_of(3, sites=(("ffn_out", 0),))
    matrix = found.sites[0].bias
    matrix[1, :] = matrix[:, 1] = np.nan
    write_picture(found, tmp_path / "a.svg")
    assert texts_of(tmp_path / "a.svg").count("–") == 5
    tree = ElementTree.parse(tmp_path / "a.svg")
    hatched = [e for e in tree.iter(f"{SVG}path") if "url(#" in e.get("style", "")]
    assert len(hatched) == 5
    matrix[:] = np.nan
    write_picture(found, tmp_path / "none.svg")
    assert texts_of(tmp_path / "none.svg").count("–") == 9


@pytest.mark.parametrize("name", ["a.png", "A.PNG"])
def test_the_png_opens(tmp_path, name):
    from PIL import Image

    write_picture(found_of(), tmp_path / name)
    with Image.open(tmp_path / name) as picture:
        assert picture.format == "PNG"
        picture.load()
        assert picture.width > picture.height > 200
        colours = {colour for _, colour in picture.convert("RGB").getcolors(10**7)}
    assert (103, 0, 31) in colours  # the end of the palette, 1 on the diagonal


def test_many_tasks_are_readable(tmp_path):
    found = found_of(64, sites=(("query", 0),), prefix="a_task_of_a_rather_long_name_")
    write_picture(found, tmp_path / "a.svg")
    texts = texts_of(tmp_path / "a.svg")
    assert not any(text.startswith("0.") and len(text) == 4 for text in texts)  # no room for values
    assert sum(text.endswith("…") for text in texts) == 2 * 2 * 64
    for tasks in (2, 12, 13, 40, 64):
        assert 7 <= label_size(tasks) <= 9
        assert label_size(tasks) < 72 * cell_side(tasks)


def test_two_tasks(tmp_path):
    write_picture(found_of(2), tmp_path / "a.svg")
    assert texts_of(tmp_path / "a.svg").count("task1") == 4


@pytest.mark.parametrize("name", ["a.pdf", "a", "a.svg.gz"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(WeftError, match=r"suffix .* expected \.svg or \.png"):
        write_picture(found_of(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_matplotlib_is_imported_for_a_picture_alone():
    script = "import sys, weft.analysis.plots.similarity as p; assert 'matplotlib' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
