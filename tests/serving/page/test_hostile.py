"""Hostile names, labels, columns and texts do nothing on the server's page but to be shown."""

from __future__ import annotations

import csv
import io
import json

import pytest

import weft
from tests.support import browser as browsers
from tests.support.outline import HOSTILE
from tests.support.serving_page import downloaded, fill_inputs, page_of, run_rows, send, serving
from tests.support.tiny_run import save_encoder

pytestmark = pytest.mark.skipif(browsers.missing() is not None, reason=str(browsers.missing()))

LABELS = (*HOSTILE, "__proto__", "constructor")
NAMES = ("constructor", "toString", "hasOwnProperty")
"""Names that a task may have and that every JavaScript object has, too."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    tasks = [
        weft.Task("constructor", labels=LABELS),
        weft.Task("toString", kind="multilabel", labels=LABELS),
        weft.Task("hasOwnProperty", kind="tag", labels=("O", *(f"B-{label}" for label in LABELS))),
        weft.Task("choose", kind="choose", choices=("choices",)),
    ]
    encoder = save_encoder(tmp_path_factory.mktemp("encoder"), layers=1)
    with serving(weft.Model(str(encoder), tasks, "frozen")) as running:
        yield running


@pytest.fixture(scope="module")
def started():
    with browsers.browser() as running:
        yield running


@pytest.fixture
def shown(started, address):
    with page_of(started, address) as opened:
        yield opened
        refused = "Failed to load resource: the server responded with a status of 4"
        assert [error for error in opened.errors if not error.startswith(refused)] == []
        assert [url for url in opened.requests if not url.startswith((f"{address}/", "data:", "blob:"))] == []


def assert_untouched(page):
    assert page.title() == "weft: try the tasks"
    assert page.query_selector("#owned") is None
    assert page.locator("main img, main script, main iframe").count() == 0


@pytest.mark.parametrize("name", NAMES)
def test_labels_and_texts_are_shown_as_they_are(shown, name):
    page = shown.page
    page.select_option("#task", label=name)
    text = " ".join(HOSTILE[:4])
    fill_inputs(page, {"text": text})
    (answer,) = send(page)["answers"]
    assert_untouched(page)
    if name == "hasOwnProperty":
        assert page.locator("#answers .marked").evaluate("p => p.textContent").startswith(text[:8])
    else:
        names = page.locator(".bars .name").evaluate_all("names => names.map(n => n.firstChild.textContent)")
        assert sorted(names) == sorted(answer["probabilities"]) == sorted(LABELS)
    assert shown.clipped() == []


def test_all_tasks_and_choices(shown):
    page = shown.page
    page.select_option("#task", "all")
    choices = [choice for choice in HOSTILE if "\x00" not in choice]
    fill_inputs(page, {"text": HOSTILE[0], "choices": choices})
    send(page)
    assert page.locator("#answers .card").count() == 4
    assert_untouched(page)
    assert shown.clipped() == []
    assert shown.accessibility("serious", "critical") == []


def test_names_of_tasks(shown, address):
    """weft refuses such names; the page does not rely on it."""
    page = shown.page
    tasks = json.loads(page.request.get(f"{address}/v1/tasks").text())
    for task, hostile in zip(tasks["tasks"], HOSTILE, strict=False):
        task["name"] = task["example"]["task"] = task["kind"] = hostile
    page.route("**/v1/tasks", lambda route: route.fulfill(json=tasks))
    page.reload()
    page.wait_for_selector("#try:not([hidden])")
    for number, hostile in enumerate(HOSTILE[:4]):
        page.select_option("#task", str(number))
        page.click("#question button.primary")
        page.wait_for_selector("#answers .bad")
        assert repr(hostile) in page.text_content("#answers .bad")
        assert_untouched(page)


def test_columns_rows_and_file_names(shown):
    page = shown.page
    columns = [name for name in (*HOSTILE, "__proto__", "constructor") if "\x00" not in name]
    file = io.StringIO()
    csv.writer(file).writerows([columns, [f"{name} the cat" for name in columns], ["" for _ in columns]])
    page.click("#tab-batch")
    run_rows(page, HOSTILE[1].replace("/", "") + ".csv", file.getvalue(), "toString")
    assert_untouched(page)
    assert page.inner_text("#batch-status") == "1 row answered, 1 row with errors"
    first = json.loads(downloaded(page, "#save-jsonl").splitlines()[0])
    assert first["input"] == {name: f"{name} the cat" for name in columns}
    assert set(first["probabilities"]) == set(LABELS)
    table = list(csv.DictReader(io.StringIO(downloaded(page, "#save-csv"), newline="")))
    assert {f"input.{name}" for name in columns} <= set(table[0])
    assert {f"probabilities.{label}" for label in LABELS} <= set(table[0])
    assert shown.clipped() == []
