"""A real server in a thread of this process, its page in the browser, and what the page shows."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import weft
from tests.support.browser import SCREENS, Opened

REFUSED = "Failed to load resource: the server responded with a status of "
"""What Chromium itself writes to the console about a response with an error status."""


@contextmanager
def serving(bundle: Any, **settings: Any) -> Iterator[str]:
    """The address of a server of a bundle or model, which is ready and is stopped at the end."""
    import uvicorn

    from weft.serving.http.application import app

    application = app(bundle, log="none", threads=1, device="cpu", **settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(application, log_level="warning", access_log=False, lifespan="on")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            while application.engine.state == "loading":
                time.sleep(0.05)
            assert application.engine.state == "ready", application.engine.error
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)


@contextmanager
def page_of(
    started: Any, address: str, screen: str = "wide", tab: str = "try", ready: bool = True
) -> Iterator[Opened]:
    """The server's page on a screen, at one of its tabs.

    Args:
        started: the browser.
        address: of the server.
        screen: one of `SCREENS`.
        tab: `try`, `batch` or `status`.
        ready: whether to wait until the tab is shown.
    """
    context = started.new_context(**SCREENS[screen], accept_downloads=True)
    try:
        shown = Opened(context.new_page())
        shown.page.set_default_timeout(30_000)
        shown.page.on("console", lambda message: shown.errors.append(message.text))
        shown.page.on("pageerror", lambda wrong: shown.errors.append(str(wrong)))
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.goto(f"{address}/" if tab == "try" else f"{address}/#{tab}")
        if ready:
            shown.page.wait_for_selector(f"#{tab}:not([hidden])")
        yield shown
    finally:
        context.close()


def request_values(task: weft.Task, row: dict[str, Any]) -> dict[str, Any]:
    """The inputs of a row of the task's files, by the names that the page uses."""
    if task.marks:
        return {column: row[column] for column in (*task.texts, *(c for m in task.marks for c in m.columns))}
    texts = [row[column] for column in task.texts]
    texts = [" ".join(text) if isinstance(text, list) else text for text in texts]
    values = dict(zip(("text",) if len(texts) == 1 else ("text_a", "text_b"), texts, strict=True))
    return values | ({"choices": row[task.choices[0]]} if task.choices else {})


def fill_inputs(page: Any, values: dict[str, Any]) -> None:
    """Type the values into the form; choices are added and removed until there are enough."""
    for number, value in enumerate(values.values()):
        field = page.locator(f"#input-{number}")
        if not isinstance(value, list):
            field.fill(str(value))
            continue
        while field.locator("input").count() > len(value):
            field.locator("button.icon").last.click()
        while field.locator("input").count() < len(value):
            field.locator("button.add").click()
        for place, text in enumerate(value):
            field.locator("input").nth(place).fill(text)


def send(page: Any) -> Any:
    """Press the button, wait for the answer and return it as the page shows it in JSON."""
    page.click("#question button.primary")
    page.wait_for_selector("#raw:not([hidden]), #answers .bad")
    assert page.locator("#answers .bad").all_inner_texts() == []
    return json.loads(page.text_content("#raw pre"))


def run_rows(page: Any, name: str, contents: str, task: str) -> None:
    """Give a file to the batch tab, run it for a task, and wait for the end."""
    page.set_input_files(
        "#file", {"name": name, "mimeType": "text/plain", "buffer": contents.encode("utf-8")}
    )
    page.wait_for_selector("#run:not([disabled])")
    page.select_option("#batch-task", label=task)
    page.click("#run")
    page.wait_for_selector("#cancel", state="hidden")
    page.wait_for_selector("#downloads:not([hidden])")


def downloaded(page: Any, button: str) -> str:
    """The text of a file that a button downloads."""
    with page.expect_download() as download:
        page.click(button)
    return download.value.path().read_bytes().decode("utf-8")


def assert_shown(place: Any, expected: dict[str, Any], values: dict[str, Any], limits: Any = None) -> None:
    """What the page shows of an answer is the expected answer, in the form of its kind.

    Args:
        place: the locator of the answer.
        expected: the answer of `model.predict`.
        values: the inputs that were sent.
        limits: the task's range.
    """
    headline = place.locator(".headline").text_content()
    if "entities" in expected:
        marks = place.locator("mark").evaluate_all(
            "marks => marks.map(m => [...m.childNodes].map(n => n.textContent))"
        )
        assert marks == [[entity["text"], entity["type"]] for entity in expected["entities"]]
    elif "start" in expected:
        assert headline == expected["answer"]
        assert place.locator("mark").all_text_contents() == [expected["answer"]]
        assert place.locator(".marked").text_content() == values["text_b"]
        before = place.locator("mark").evaluate("mark => mark.previousSibling.textContent")
        assert before == values["text_b"][: expected["start"]]
    elif "order" in expected:
        names = [values["choices"][index] for index in expected["order"]]
        assert headline == names[0]
        assert place.locator(".ranking .name").all_text_contents() == names
        assert _numbers(place, ".ranking .share") == pytest.approx(
            [expected["scores"][index] for index in expected["order"]], abs=1e-4
        )
    elif "value" in expected:
        numbers = expected["value"] if isinstance(expected["value"], list) else [expected["value"]]
        assert [_number(text) for text in headline.split(", ")] == pytest.approx(numbers, abs=1e-4)
        dots = place.locator(".range .dot").evaluate_all(
            "dots => dots.map(dot => parseFloat(dot.style.left))"
        )
        if limits is None:
            assert dots == []
        else:
            low, high = limits
            assert dots == pytest.approx([100 * (x - low) / (high - low) for x in numbers], abs=0.01)
    else:
        _assert_bars(place, headline, expected, values)


def _assert_bars(place: Any, headline: str, expected: dict[str, Any], values: dict[str, Any]) -> None:
    chances = expected["probabilities"]
    if isinstance(chances, list):
        shares = list(zip(values["choices"], chances, strict=True))
        predicted = [expected["text"]]
    else:
        shares = list(chances.items())
        predicted = expected.get("labels", [expected.get("label")])
    names = place.locator(".bars .name").evaluate_all(
        "names => names.map(name => name.firstChild.textContent)"
    )
    found = list(zip(names, _numbers(place, ".bars .share"), strict=True))
    assert [share for _, share in found] == sorted((share for _, share in found), reverse=True)
    shares = [(name, pytest.approx(100 * share, abs=0.0501)) for name, share in shares]
    assert sorted(found, key=lambda pair: pair[0]) == sorted(shares, key=lambda pair: pair[0])
    widths = place.locator(".bars .fill").evaluate_all("bars => bars.map(bar => parseFloat(bar.style.width))")
    assert widths == pytest.approx([share for _, share in found], abs=0.0501)
    bold = place.locator(".bars .predicted .name").evaluate_all(
        "names => names.map(n => n.firstChild.textContent)"
    )
    assert sorted(bold) == sorted(predicted)
    assert headline == (", ".join(predicted) or "none of the labels")


def _numbers(place: Any, selector: str) -> list[float]:
    return [_number(text) for text in place.locator(selector).all_text_contents()]


def _number(text: str) -> float:
    return float(text.replace("−", "-").removesuffix("%").strip())
