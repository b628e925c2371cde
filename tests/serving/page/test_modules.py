"""The page's modules alone: files that are read and written, metrics that are parsed."""

from __future__ import annotations

import csv
import io
import json
import re
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import browser as browsers
from tests.support.outline import HOSTILE
from weft.serving.page import HEADERS, PAGE, read_page

ORIGIN = "http://weft.test"
SLOW = settings(max_examples=60, deadline=None)


def test_every_file_of_the_page_is_served():
    """Each file has a path, and each import names a module that is served."""
    folder = files("weft.serving.page")
    names = {file.name for file in folder.iterdir() if file.name.endswith((".html", ".css", ".js"))}
    assert {name for name, _ in PAGE.values()} == names
    for path, (name, _) in PAGE.items():
        if not name.endswith(".js"):
            continue
        base = "/page/" if path.startswith("/page/") else "/"
        for module in re.findall(r'from "\./([^"]+)"', read_page(path)[0].decode()):
            assert base + module in PAGE


def test_nothing_is_inline_and_nothing_comes_from_elsewhere():
    html = read_page("/")[0].decode()
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?![^>]*\ssrc=)", html)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", html)
    for path in PAGE:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", read_page(path)[0].decode()
        )


@pytest.fixture(scope="module")
def page():
    """An empty page that can import the modules."""
    if reason := browsers.missing():
        pytest.skip(reason)

    def answer(route):
        path = route.request.url.removeprefix(ORIGIN)
        contents, kind = read_page(path) if path in PAGE else (b"", "text/html")
        route.fulfill(body=contents, headers={**HEADERS, "Content-Type": kind})

    with browsers.browser() as running:
        opened = running.new_page()
        opened.route("**/*", answer)
        opened.goto(f"{ORIGIN}/empty")
        yield opened


TEXT = st.text(st.sampled_from('ab ,;\t"\n\r\r\n|é🐈\u2028'), max_size=8)


@st.composite
def tables(draw):
    width = draw(st.integers(2, 4))
    columns = draw(st.lists(TEXT.filter(str.strip), min_size=width, max_size=width, unique=True))
    rows = draw(st.lists(st.lists(TEXT, min_size=width, max_size=width), max_size=4))
    return columns, rows


@SLOW
@given(tables(), st.sampled_from(["csv", "tsv"]), st.sampled_from(["\n", "\r\n"]))
def test_tables_are_read_as_python_writes_them(page, table, kind, ending):
    columns, rows = table
    file = io.StringIO()
    # with "\n", Python leaves a "\r" inside a cell unquoted
    quoting = csv.QUOTE_ALL if ending == "\n" else csv.QUOTE_MINIMAL
    writer = csv.writer(
        file, delimiter="," if kind == "csv" else "\t", lineterminator=ending, quoting=quoting
    )
    writer.writerows([columns, *rows])
    read = page.evaluate(
        "async ([text, kind]) => (await import('/page/tables.js')).readTable(text, kind)",
        [file.getvalue(), kind],
    )
    assert read["columns"] == columns
    assert [list(row["values"].values()) for row in read["rows"]] == rows


VALUE = TEXT | st.integers(-9, 9) | st.lists(TEXT, max_size=2)


@SLOW
@given(
    st.lists(
        st.fixed_dictionaries({"line": st.integers(1, 9)}, optional=dict.fromkeys("ab,", VALUE)), max_size=4
    )
)
def test_tables_are_written_as_python_reads_them(page, records):
    nested = [{**record, "in": {"x": record["line"]}} for record in records]
    written = page.evaluate("async (records) => (await import('/page/tables.js')).csvOf(records)", nested)
    rows = list(csv.DictReader(io.StringIO(written, newline="")))
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        cells = {key: value for key, value in row.items() if value != ""}
        texts = {k: compact(v) if isinstance(v, list) else str(v) for k, v in record.items()}
        assert cells == {k: v for k, v in texts.items() if v != ""} | {"in.x": str(record["line"])}


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@SLOW
@given(
    st.dictionaries(
        st.sampled_from([*HOSTILE, "a\nb", 'a\\"b', "rte", "{x} 3"]), st.lists(st.floats(0, 60), max_size=30)
    )
)
def test_metrics_are_parsed_as_they_were_counted(page, seconds):
    from weft.serving.metrics import Metrics

    metrics = Metrics()
    for task, values in seconds.items():
        for value in values:
            metrics.answered([task], value)
    measured = page.evaluate(
        """async (text) => {
            const { parseMetrics, byLabel, buckets, quantile } = await import('/page/prometheus.js');
            const samples = parseMetrics(text);
            const histograms = buckets(samples, 'weft_request_seconds', 'task');
            const counts = [...byLabel(samples, 'weft_texts_total', 'task')];
            return counts.map(([task, count]) => [task, count, quantile(histograms.get(task), 0.95)]);
        }""",
        metrics.text().decode(),
    )
    bounds = [0, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, np.inf]
    counted = {task: values for task, values in seconds.items() if values}
    assert {task: count for task, count, _ in measured} == {
        task: len(values) for task, values in counted.items()
    }
    for task, _, p95 in measured:
        # the estimate is in the bucket of the value at 95 %
        values = sorted(counted[task])
        true = values[int(np.ceil(0.95 * len(values))) - 1]
        place = int(np.searchsorted(bounds, true, "left"))
        low, high = bounds[max(place, 1) - 1], bounds[max(place, 1)]
        assert p95["isLeast"] == (high == np.inf)
        assert low <= p95["value"] <= min(high, 30) + 1e-9
