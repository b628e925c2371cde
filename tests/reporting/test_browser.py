"""Pages in a browser: no error, every picture there, no request, no serious obstacle, and what scripts do."""

from __future__ import annotations

import json

import pytest

from tests.support import browser as browsers
from tests.support.browser import SCREENS, opened
from tests.support.more import some_of
from tests.support.outline import HOSTILE
from tests.support.report_grid import large_comparison
from tests.support.report_runs import error_report, write_run_folder
from weft.cli import run as weft
from weft.reporting.covariance_scatter import TaskPoint
from weft.reporting.report import report
from weft.reporting.single_picture import write_covariance

pytestmark = pytest.mark.skipif(
    browsers.missing() is not None and not browsers.required(), reason=str(browsers.missing())
)


@pytest.fixture(scope="module")
def started():
    assert browsers.missing() is None, browsers.missing()
    with browsers.browser() as running:
        yield running


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The pages, by name."""
    folder = tmp_path_factory.mktemp("pages")
    pages = {}
    for name, tasks in (("run", ("cola", "rte", "stsb")), ("hostile", HOSTILE)):
        made = write_run_folder(folder / name, tasks)
        (made / "errors.json").write_text(json.dumps(error_report(tasks, tasks[0], tasks[1])))
        pages[name] = report([made])
    compared = large_comparison(folder / "grid", variants=8, tasks=3, seeds=3, over_time=True)
    pages["comparison"] = report([compared])
    pages["two"] = report(
        [large_comparison(folder / "two", variants=2, tasks=("a_task_with_a_long_name", "b"), seeds=2)]
    )
    pages["several"] = report([folder / "run", folder / "hostile", compared], folder / "several.html")
    pages["curves"], pages["composition"] = folder / "curves.html", folder / "composition.html"
    assert weft(["show", "curves", str(compared), "--plot", str(pages["curves"])]) == 0
    assert weft(["show", "composition", str(folder / "run"), "--plot", str(pages["composition"])]) == 0
    pages["covariance"] = folder / "covariance.html"
    points = [TaskPoint(f"model {n}", f"task {t}", 0.1 * t, 5.0 * n - t) for n in (1, 2) for t in range(3)]
    write_covariance(points, pages["covariance"], "against separate")
    pages["attention"] = folder / "attention.html"
    pages["attention"].write_text(attention_page())
    return pages


def attention_page():
    import torch

    from weft.analysis.attention import AttentionMap, Layer
    from weft.reporting.attention_page import attention_html

    tokens = ("[CLS]", "the", "<cat>", "sleeps", "[SEP]")
    draw = torch.Generator().manual_seed(1)
    layers = tuple(
        Layer(f"{n}/ffn_delta", (3 * torch.randn((2, 5, 5), generator=draw)).softmax(-1)) for n in range(2)
    )
    return attention_html(AttentionMap(HOSTILE[0], (HOSTILE[1],), tokens, layers), 2)


PAGES = (
    *("run", "hostile", "comparison", "two", "several"),
    *("curves", "composition", "covariance", "attention"),
)


@pytest.mark.parametrize("screen", some_of(SCREENS, 1))
@pytest.mark.parametrize("name", PAGES)
def test_pages_open_without_errors_requests_or_obstacles(started, files, name, screen):
    with opened(started, files[name], screen) as shown:
        assert shown.errors == []
        assert shown.requests == [files[name].resolve().as_uri()]
        assert shown.clipped() == []
        assert shown.page.title() != "owned"
        assert shown.page.query_selector("#owned") is None
        # also what is folded away
        shown.page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        assert shown.clipped() == []
        assert shown.accessibility("serious", "critical") == []
        assert shown.errors == []


@pytest.mark.parametrize("name", ["comparison", "curves", "composition", "covariance"])
def test_samples_of_a_legend_are_as_small_as_its_words(started, files, name):
    with opened(started, files[name], "wide") as shown:
        sizes = "[...document.querySelectorAll('.key')].map((key) => key.getBoundingClientRect())"
        widths = shown.page.evaluate(f"{sizes}.map((box) => box.width)")
        assert widths
        assert max(widths) <= 40


def test_sentences_are_in_sight_on_a_phone(started, files):
    """Rows with sentences are cards: nothing is scrolled sideways, and no cell is outside of the screen."""
    with opened(started, files["comparison"], "phone") as shown:
        for place in ("#claims", "#contrasts", "#settings"):
            hidden = shown.page.eval_on_selector_all(
                f"{place} table.stack td, {place} table.stack th",
                "cells => cells.filter((c) => c.getBoundingClientRect().right > innerWidth).length",
            )
            assert hidden == 0
        label = "getComputedStyle(document.querySelector('#claims tbody td'), '::before').content"
        assert shown.page.evaluate(label) == '"verdict: "'
        # rows can still be sorted
        page = shown.page
        button = page.query_selector("#contrasts table.stack thead th:nth-child(2) button")
        button.click()
        cells = page.query_selector_all("#contrasts table.stack tbody td:nth-child(2)")
        differences = [float(cell.inner_text()) for cell in cells]
        assert differences == sorted(differences, reverse=True)
        assert len(set(differences)) > 1


def numbers(page, place):
    """The first number of each cell of a column of the table of scores."""
    rows = page.query_selector_all("#scores table tbody tr")
    return [float(row.query_selector_all("td")[place].inner_text().split()[0]) for row in rows]


def test_tables_are_sorted_by_keyboard(started, files):
    with opened(started, files["comparison"]) as shown:
        page = shown.page
        head = page.query_selector_all("#scores table thead th")[2]
        head.query_selector("button").focus()
        for order, reverse in (("descending", True), ("ascending", False)):  # the largest number first
            page.keyboard.press("Enter")
            assert head.get_attribute("aria-sort") == order
            assert numbers(page, 1) == sorted(numbers(page, 1), reverse=reverse)
        assert len(set(numbers(page, 1))) > 1


def test_the_theme_can_be_changed(started, files):
    background = "getComputedStyle(document.body).backgroundColor"
    with opened(started, files["run"], "dark") as dark, opened(started, files["run"]) as light:
        assert dark.page.evaluate(background) != light.page.evaluate(background)
        button = light.page.query_selector("#theme")
        assert button.inner_text() == "Dark theme"
        button.click()
        assert button.inner_text() == "Light theme"
        assert light.page.evaluate(background) == dark.page.evaluate(background)
        ink = "getComputedStyle(document.querySelector('svg.picture text')).fill"
        assert light.page.evaluate(ink) == dark.page.evaluate(ink)


def test_series_are_switched_in_all_charts(started, files):
    with opened(started, files["comparison"]) as shown:
        page = shown.page
        off = lambda: page.eval_on_selector_all("#curves g.series.off", "found => found.length")  # noqa: E731
        assert off() == 2 * 4  # eight variants, six in color; the average and three tasks
        page.query_selector("#curves input:not(:checked)").check()
        assert off() == 4
        for box in page.query_selector_all("#curves input:checked"):
            box.uncheck()
        assert off() == 8 * 4


def test_tasks_are_switched_in_the_charts_of_all_variants(started, files):
    """Also in those that are folded away, and in no other section."""
    with opened(started, files["comparison"]) as shown:
        page = shown.page
        off = lambda key: page.eval_on_selector_all(f"#{key} g.series.off", "found => found.length")  # noqa: E731
        page.query_selector("#entropy input[data-series='1']").uncheck()
        assert off("entropy") == 8
        assert off("sampling") == 0
        page.query_selector("#entropy details:not(figure details) summary").click()
        assert page.query_selector("#entropy details:not(figure details) svg.picture").is_visible()


def test_values_are_shown_at_the_pointer(started, files):
    with opened(started, files["run"]) as shown:
        page = shown.page
        picture = page.query_selector("#curves svg.hover")
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 20, box["y"] + box["height"] / 2)
        readout = page.query_selector("#curves .readout").inner_text()
        assert readout.startswith("step 200: average ")
        page.mouse.move(0, 0)
        assert page.query_selector("#curves .readout").inner_text() == ""


def test_attention_values_are_read_by_pointer_and_arrow_keys(started, files):
    with opened(started, files["attention"]) as shown:
        page = shown.page
        page.query_selector("[data-values]").focus()
        assert "token 0, [CLS], attends to token 0, [CLS]: " in page.inner_text("#value-at")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        text = page.inner_text("#value-at")
        assert "layer 0 (0/ffn_delta), head 0: token 2, <cat>, attends to token 1, the: " in text
        assert page.query_selector("#value-at").is_visible()


def test_without_scripts_nothing_is_lost(started, files):
    """Tables and pictures are there, and no dead button is shown."""
    context = started.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(files["comparison"].resolve().as_uri())
    assert not page.query_selector("#theme").is_visible()
    assert page.query_selector_all("thead button") == []
    assert page.query_selector("#curves svg").is_visible()
    context.close()
