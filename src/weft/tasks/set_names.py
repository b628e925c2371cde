"""How sets of examples are named."""

ALSO = ":"
"""Between a task and a further set it is judged on: "mnli:mm"."""


def task_of(name: str) -> str:
    """The task of `TASK` or `TASK:SET`."""
    return name.partition(ALSO)[0]
