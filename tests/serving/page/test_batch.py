"""Whole files on the server's page: bad rows, columns, a busy server, cancelling, dropping a file."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.support import browser as browsers
from tests.support.every_kind import rows_of_kind
from tests.support.near import assert_near
from tests.support.serving_page import (
    downloaded,
    request_values,
    run_rows,
)

pytestmark = [
    pytest.mark.skipif(browsers.missing() is not None, reason=str(browsers.missing())),
    pytest.mark.usefixtures("token_cache"),
]


def test_a_csv_file_with_bad_rows(shown, model):
    """Bad rows are reported with their line; all others are answered, over several portions."""
    texts = [row["text"] for row in rows_of_kind("classify", 150, seed=9)]
    texts[3], texts[64], texts[70] = 'a "cat", not\na dog', "", " "
    file = io.StringIO()
    csv.writer(file).writerows([("id", "text"), *enumerate(texts)])
    lines = file.getvalue() + "150\r\n"  # a row that lacks a column
    shown.page.click("#tab-batch")
    run_rows(shown.page, "rows.csv", lines, "classify")
    status = shown.page.inner_text("#batch-status")
    assert status == "148 rows answered, 3 rows with errors"
    # line 1 is the header, and one cell has a line break
    errors = shown.page.locator("#batch-errors li").all_text_contents()
    assert [error.split(":")[0] for error in errors] == ["line 67", "line 73", "line 153"]
    assert "expected a text that is not empty" in errors[0]
    assert errors[2] == "line 153: expected 2 columns; found 1"
    assert shown.page.locator("#batch-table tbody tr").count() == 50
    good = [(number, text) for number, text in enumerate(texts) if text.strip()]
    expected = model.predict([("classify", text) for _, text in good])
    records = [json.loads(line) for line in downloaded(shown.page, "#save-jsonl").splitlines()]
    assert len(records) == 151
    answered = [record for record in records if "error" not in record]
    assert [record["input"] for record in answered] == [{"id": str(n), "text": text} for n, text in good]
    for record, answer in zip(answered, expected, strict=True):
        assert_near({key: record[key] for key in answer}, answer)
    cells = list(csv.DictReader(io.StringIO(downloaded(shown.page, "#save-csv"), newline="")))
    assert [cell["line"] for cell in cells] == [str(record["line"]) for record in records]
    assert [cell["label"] for cell in cells] == [record.get("label", "") for record in records]
    assert [cell["input.text"] for cell in cells[:150]] == texts
    assert float(cells[0]["probabilities.yes"]) == records[0]["probabilities"]["yes"]


@pytest.mark.parametrize("name", ["tag", "put_in", "marked"])
def test_a_jsonl_file_with_bad_rows(shown, model, name):
    task = model.tasks[model.task_id(name)]
    rows = rows_of_kind(name, 5, seed=4)
    texts = [json.dumps(request_values(task, row)) for row in rows]
    if name == "tag":
        texts = [json.dumps({"text": row["words"]}) for row in rows]  # a list of words
    lines = "\n".join([texts[0], "{no json", *texts[1:3], "", '{"other": 1}', *texts[3:]])
    shown.page.click("#tab-batch")
    run_rows(shown.page, "rows.jsonl", lines, name)
    assert shown.page.inner_text("#batch-status") == "5 rows answered, 2 rows with errors"
    errors = shown.page.locator("#batch-errors li").all_text_contents()
    assert errors[0].startswith("line 2: not JSON")
    assert errors[1].startswith(f"line 6: task '{name}' takes ")
    records = [json.loads(line) for line in downloaded(shown.page, "#save-jsonl").splitlines()]
    expected = model.predict([(name, row) for row in rows])
    for record, answer in zip([r for r in records if "error" not in r], expected, strict=True):
        assert_near({key: record[key] for key in answer}, answer)


def test_columns_are_guessed_and_can_be_changed(shown, model):
    page = shown.page
    page.click("#tab-batch")
    page.fill("#pasted", "choice2\ttext\tchoice1\nthe dog\tthe cat\ta bird\nold\tnew\there\n")
    page.select_option("#batch-task", label="choose")
    boxes = page.locator("#columns input[type=checkbox]")
    assert [box.is_checked() for box in boxes.all()] == [True, False, True]
    assert page.inner_text("#data-note") == "tsv: 2 rows, 3 columns"
    page.select_option("#column-0", label="choice1")
    page.locator("#columns label", has_text="choice1").click()
    page.locator("#columns label", has_text="text").last.click()
    page.click("#run")
    page.wait_for_selector("#downloads:not([hidden])")
    records = [json.loads(line) for line in downloaded(page, "#save-jsonl").splitlines()]
    expected = model.predict(
        [("choose", ("a bird", ["the dog", "the cat"])), ("choose", ("here", ["old", "new"]))]
    )
    for record, answer in zip(records, expected, strict=True):
        assert_near({key: record[key] for key in answer}, answer)


def test_a_busy_server_is_waited_for(shown):
    """Status 429 with Retry-After: the portion is sent again, and no row is lost."""
    refused = []

    def overloaded(route):
        if len(refused) < 2:
            refused.append(len(route.request.post_data_json["requests"]))
            error = {"error": {"code": "overloaded", "message": "too many texts wait"}}
            route.fulfill(status=429, headers={"Retry-After": "1"}, json=error)
        else:
            route.continue_()

    shown.page.route("**/v1/predict", overloaded)
    shown.page.click("#tab-batch")
    run_rows(shown.page, "rows.txt", "the cat\n" * 100, "classify")
    assert sorted(refused) == [36, 64]
    assert shown.page.inner_text("#batch-status") == "100 rows answered"


def test_a_run_can_be_cancelled(shown):
    from playwright.sync_api import expect

    held = []
    # the second portion is never answered
    shown.page.route(
        "**/v1/predict",
        lambda route: held.append(route) if "dog" in route.request.post_data else route.continue_(),
    )
    shown.page.click("#tab-batch")
    shown.page.fill("#pasted", "the cat\n" * 64 + "the dog\n" * 200)
    shown.page.click("#run")
    expect(shown.page.locator("#batch-status")).to_have_text("64 of 264 rows")
    assert shown.page.locator("#progress").evaluate("bar => bar.value") == pytest.approx(64 / 264)
    shown.page.click("#cancel")
    shown.page.wait_for_selector("#downloads:not([hidden])")
    assert shown.page.inner_text("#batch-status") == "64 rows answered, cancelled"
    assert len(downloaded(shown.page, "#save-jsonl").splitlines()) == 64
    assert shown.page.is_enabled("#run")


def test_a_file_can_be_dropped(shown):
    shown.page.click("#tab-batch")
    transfer = shown.page.evaluate_handle(
        """() => {
            const transfer = new DataTransfer();
            transfer.items.add(new File(['{"text": "the cat"}\\n{"text": "a dog"}'], 'rows.jsonl'));
            return transfer;
        }"""
    )
    shown.page.dispatch_event("#drop", "drop", {"dataTransfer": transfer})
    shown.page.wait_for_selector("#run:not([disabled])")
    assert shown.page.inner_text("#data-note") == "jsonl: 2 rows, 1 column"
    assert shown.page.inner_text("#file-name") == "rows.jsonl"
