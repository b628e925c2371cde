"""The server's page in a browser: every kind is answered, batches, status, keys, keyboard, obstacles."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.support import browser as browsers
from tests.support.browser import SCREENS
from tests.support.every_kind import NAMES, SETTINGS, rows_of_kind
from tests.support.more import some_of
from tests.support.near import assert_near
from tests.support.serving_page import (
    REFUSED,
    assert_shown,
    fill_inputs,
    page_of,
    request_values,
    run_rows,
    send,
    serving,
)

pytestmark = [
    pytest.mark.skipif(browsers.missing() is not None, reason=str(browsers.missing())),
    pytest.mark.usefixtures("token_cache"),
]

KEY = "a-key-with-24-characters"


@pytest.mark.parametrize("name", some_of(NAMES, 5))
def test_every_kind_is_answered_as_predict_answers(shown, model, name):
    row = rows_of_kind(name, 3, seed=7)[-1]
    (expected,) = model.predict([(name, row)])
    values = request_values(model.tasks[model.task_id(name)], row)
    shown.page.select_option("#task", label=name)
    fill_inputs(shown.page, values)
    (answer,) = send(shown.page)["answers"]
    cut = answer.pop("truncated")
    assert_near(answer, expected)
    assert_shown(shown.page.locator("#answers"), expected, values, SETTINGS[name].get("range"))
    assert shown.page.locator("#answers .warn").count() == int(cut)
    assert shown.errors == []


def test_forms_start_with_the_example_of_each_task(shown, address):
    tasks = json.loads(shown.page.request.get(f"{address}/v1/tasks").text())["tasks"]
    assert len(tasks) == len(NAMES)
    for task in tasks:
        shown.page.select_option("#task", label=task["name"])
        send(shown.page)
        command = shlex.split(shown.page.text_content("#curl pre").replace("\\\n", " "))
        assert command[:3] == ["curl", "-s", f"{address}/v1/predict"]
        assert json.loads(command[command.index("-d") + 1]) == task["example"]


def test_all_tasks_on_one_text(shown, model):
    shown.page.select_option("#task", "all")
    values = {
        "text": "the cat sees it's a dog",
        "text_b": "a bird fears the red dog",
        "choices": ["a cat", "a dog"],
    }
    fill_inputs(shown.page, values)
    send(shown.page)
    sent = {**values, "text_a": values["text"]}
    expected = model.predict_all(sent)
    cards = shown.page.locator("#answers .card")
    assert cards.count() == len(expected) == len(NAMES) - 1
    for name, answer in expected.items():
        card = cards.filter(has=shown.page.locator(f"h3:text-matches('^{name} ')"))
        assert card.count() == 1
        assert_shown(card, answer, sent, SETTINGS[name].get("range"))
    assert shown.page.locator("#answers .absent li").all_text_contents() == [
        "marked takes a, b, s1, e1, w2, p2"
    ]
    # only the text: tasks on pairs and tasks with choices cannot read it
    fill_inputs(shown.page, {"text": values["text"], "text_b": "", "choices": ["", ""]})
    send(shown.page)
    assert cards.count() == len(model.predict_all(values["text"]))


def test_a_text_that_is_typed_stays_when_the_task_changes(shown):
    page = shown.page
    page.select_option("#task", label="classify")
    page.fill("#input-0", "a very old cat")
    page.select_option("#task", label="choose")
    assert page.input_value("#input-0") == "a very old cat"
    assert page.input_value("#input-1 li:nth-child(2) input") == "She lives in Peru."
    page.click("#example")
    assert page.input_value("#input-0") == "Anna moved to Oslo in 2019."


def test_answers_in_texts_with_characters_outside_the_first_plane(shown, model):
    question, context = "what sees 🐕 a", "🐈🐈 the 𝒸at 🐦 sees the red\u00a0bird here now"
    (expected,) = model.predict([("span", (question, context))])
    shown.page.select_option("#task", label="span")
    fill_inputs(shown.page, {"text_a": question, "text_b": context})
    send(shown.page)
    assert_shown(shown.page.locator("#answers"), expected, {"text_b": context})
    text = "the\x1ccat \ufeff sees\u3000🐕 the\nred dog"
    (expected,) = model.predict([("tag", text)])
    shown.page.select_option("#task", label="tag")
    fill_inputs(shown.page, {"text": text})
    (answer,) = send(shown.page)["answers"]
    assert len(answer["tags"]) == len(text.split())
    assert_near({key: answer[key] for key in expected}, expected)
    marks = shown.page.locator("#answers mark").evaluate_all(
        "marks => marks.map(m => m.firstChild.textContent)"
    )
    assert [" ".join(mark.split()) for mark in marks] == [entity["text"] for entity in expected["entities"]]


def test_truncated_texts_and_errors_are_reported(shown):
    page = shown.page
    page.select_option("#task", label="classify")
    page.fill("#input-0", "the old cat sees " * 30)
    assert send(page)["answers"][0]["truncated"] is True
    assert "a part of it was left out" in page.inner_text("#answers .warn")
    page.fill("#input-0", "  ")
    page.click("#question button.primary")
    page.wait_for_selector("#answers .bad")
    assert "expected a text that is not empty" in page.inner_text("#answers .bad")
    assert page.locator("#raw").is_hidden()


def test_the_status_is_measured_while_it_is_visible(started, address):
    from playwright.sync_api import expect

    with page_of(started, address) as opened:
        page = opened.page
        page.clock.install()
        page.reload()
        page.wait_for_selector("#try:not([hidden])")
        page.select_option("#task", label="similar")
        send(page)

        def measured():
            return sum(url.endswith("/metrics") for url in opened.requests)

        assert measured() == 0
        page.click("#tab-status")
        page.wait_for_selector("#by-task tbody tr")
        counts = dict(
            line.rsplit(" ", 1)
            for line in page.request.get(f"{address}/metrics").text().splitlines()
            if line.startswith(("weft_texts_total", "weft_request_seconds_count"))
        )
        rows = page.locator("#by-task tbody tr").evaluate_all(
            "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
        )
        by_name = {row[0]: row for row in rows}
        for key, count in counts.items():
            name = key.split('"')[1]
            place = 1 if key.startswith("weft_texts") else 3
            assert by_name[name][place].replace(",", "") == str(int(float(count)))
        page.clock.fast_forward(2_000)
        expect(page.locator(".chart .now").first).to_have_text("0 texts/s")
        assert measured() == 2
        page.click("#tab-try")
        page.clock.fast_forward(20_000)
        send(page)  # a round trip: a measurement would have been sent before it
        assert measured() == 2
        assert opened.errors == []


@pytest.mark.parametrize("screen", some_of(SCREENS, 1))
@pytest.mark.parametrize("tab", ["try", "batch", "status"])
def test_no_obstacle_and_no_overflow(started, address, tab, screen):
    with page_of(started, address, screen, tab) as opened:
        page = opened.page
        if tab == "try":
            for choice in ("all", *(str(number) for number in range(len(NAMES)))):
                page.select_option("#task", choice)
                send(page)
                page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
                assert opened.clipped() == []
                if choice in ("all", str(NAMES.index("tag")), str(NAMES.index("marked"))):
                    assert opened.accessibility("serious", "critical") == []
        elif tab == "batch":
            assert opened.accessibility("serious", "critical") == []
            run_rows(page, "rows.csv", "id,text\n1,the cat\n2,\n3,a dog\n", "classify")
        else:
            page.wait_for_selector("#by-task tbody tr, #by-task p")
        assert opened.clipped() == []
        assert opened.accessibility("serious", "critical") == []
        assert [error for error in opened.errors if not error.startswith(REFUSED)] == []


def test_the_keyboard_alone_is_enough(shown):
    """Without a pointer: choose a task, write choices, send, open the JSON; then the other tabs."""
    page, keys = shown.page, shown.page.keyboard

    def focused():
        return page.evaluate("document.activeElement.id")

    def tab_to(wanted):
        for _ in range(30):
            if wanted():
                return
            keys.press("Tab")
        raise AssertionError("the tab key never comes there")

    keys.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    tab_to(lambda: focused() == "task")
    keys.type("choose")
    assert page.evaluate("document.querySelector('#task').selectedOptions[0].textContent") == "choose"
    tab_to(lambda: focused() == "input-0")
    keys.press("Control+A")
    keys.type("the cat sees a bird")
    label = "document.activeElement.getAttribute('aria-label')"
    tab_to(lambda: page.evaluate(label) == "Choice 2")
    keys.press("Enter")
    assert page.evaluate(label) == "Choice 3"
    keys.type("a third one")
    keys.press("Control+Enter")
    page.wait_for_selector("#answers .bars")
    assert page.locator("#answers .bars li").count() == 3
    assert "Answered in" in page.inner_text("#result-status")
    tab_to(lambda: page.evaluate(label) == "Remove choice 3")
    keys.press("Enter")
    assert page.locator("#inputs .choices li").count() == 2
    tab_to(lambda: page.evaluate("document.activeElement.parentElement.id") == "raw")
    keys.press("Enter")
    assert page.locator("#raw pre").is_visible()
    while focused() != "tab-try":
        keys.press("Shift+Tab")
    keys.press("ArrowRight")
    assert focused() == "tab-batch"
    tab_to(lambda: focused() == "file")
    tab_to(lambda: focused() == "pasted")
    keys.type("a cat\nthe dog")
    keys.press("Control+Enter")
    page.wait_for_selector("#downloads:not([hidden])")
    assert page.inner_text("#batch-status") == "2 rows answered"
    while focused() != "tab-batch":
        keys.press("Shift+Tab")
    keys.press("End")
    assert focused() == "tab-status"
    page.wait_for_selector("#by-task tbody tr")


def test_a_key_is_asked_for_and_kept_in_the_tab(started, bundle):
    from playwright.sync_api import expect

    with serving(bundle, keys=(KEY,)) as address, page_of(started, address, ready=False) as opened:
        page = opened.page
        page.wait_for_selector("#key:not([hidden])")
        assert page.evaluate("document.activeElement.id") == "key-value"
        assert opened.accessibility("serious", "critical") == []
        page.keyboard.type("another-key-of-some-length")
        page.keyboard.press("Enter")
        expect(page.locator("#key-why")).to_contain_text("not valid")
        page.fill("#key-value", KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("#try:not([hidden])")
        assert page.locator("#key").is_hidden()
        send(page)
        command = page.text_content("#curl pre")
        assert KEY not in command
        assert '"Authorization: Bearer $KEY"' in command
        kept = page.evaluate("[Object.values(sessionStorage), localStorage.length, document.cookie]")
        assert kept == [[KEY], 0, ""]
        page.reload()
        page.wait_for_selector("#try:not([hidden])")
        assert {error[len(REFUSED) :][:3] for error in opened.errors} <= {"401", "403"}
