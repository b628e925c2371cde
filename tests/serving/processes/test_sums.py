"""Metrics of several processes add up to those of one that saw everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.serving.metrics import Metrics
from weft.serving.processes.sums import summed

# seconds whose sums are exact in any order
EVENTS = st.tuples(st.integers(0, 2), st.sampled_from(["a", "b"]), st.sampled_from([2**-10, 0.25, 2.0]))


def values(text):
    lines = [line for line in text.splitlines() if "_created" not in line]
    split = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in split}, {line for line in lines if line.startswith("#")}


@given(events=st.lists(EVENTS, max_size=20))
def test_the_sum_is_what_one_process_would_have_counted(events):
    whole, parts = Metrics(), [Metrics() for _ in range(3)]
    for process, task, seconds in events:
        for metrics in (whole, parts[process]):
            metrics.answered([task], seconds)
            metrics.request("/v1/predict", "200")
    found = values(summed([part.text().decode() for part in parts]))
    assert found == values(whole.text().decode())


def test_counting_began_with_the_first_process():
    texts = [f'# TYPE x_created gauge\nx_created{{task="a b"}} {value}\n' for value in (5.0, 3.0, 4.0)]
    assert summed(texts) == '# TYPE x_created gauge\nx_created{task="a b"} 3.0\n'
