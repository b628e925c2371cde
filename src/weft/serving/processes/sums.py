"""Metrics of several processes of one server, as if one process had counted."""

from __future__ import annotations

from collections.abc import Iterable

CREATED = "_created"
"""The end of the names of values that say since when something is counted."""


def summed(texts: Iterable[str]) -> str:
    """Add up metrics in the format of Prometheus: counts, sums and gauges; of times of creation the first.

    Example:
        >>> summed(["# TYPE up gauge\\nup 1.0\\n", "# TYPE up gauge\\nup 2.0\\n"])
        '# TYPE up gauge\\nup 3.0\\n'

    Args:
        texts: the metrics of each process.
    """
    described: dict[str, list[str]] = {}
    values: dict[str, dict[str, float]] = {}
    for text in texts:
        metric = ""
        for line in text.splitlines():
            if line.startswith("#"):
                metric = line.split()[2]
                known = described.setdefault(metric, [])
                known += [] if line in known else [line]
                continue
            name, _, value = line.rpartition(" ")
            of_metric = values.setdefault(metric, {})
            number = float(value)
            if name not in of_metric:
                of_metric[name] = number
            elif name.partition("{")[0].endswith(CREATED):
                of_metric[name] = min(of_metric[name], number)
            else:
                of_metric[name] += number
    lines = []
    for metric, about in described.items():
        lines += about
        lines += [f"{name} {value}" for name, value in values.get(metric, {}).items()]
    return "".join(f"{line}\n" for line in lines)
