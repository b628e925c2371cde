"""Every sampler with the settings that it is tested with."""

from hypothesis import strategies as st

from weft.sampling import SAMPLERS
from weft.sampling.plan.grouping import WINDOW


def policy(tasks):
    """A policy over the tasks 0, 1, …: a task is twice as likely as the next, and the last is never drawn."""
    weights = [2.0**-i for i in range(max(tasks - 1, 1))] + [0.0] * (tasks > 1)
    return {str(i): w / sum(weights) for i, w in enumerate(weights)}


SETTINGS = {
    "annealed by steps": lambda tasks: {"use": "annealed", "epoch_steps": 50},
    "counterfactual": lambda tasks: {"use": "counterfactual", "policy": policy(tasks)},
    "temperature with replacement": lambda tasks: {"use": "temperature", "cap": 40, "replacement": True},
}
"""What a sampler is tested with, given the number of tasks; those that are not here have no settings."""

EVERY = sorted({*SAMPLERS, *SETTINGS})
DRAWN = [label for label in EVERY if label != "mt_uncertainty"]
"""All but those that choose among candidates."""


def spec(label, tasks):
    """What a run file would say."""
    return SETTINGS[label](tasks) if label in SETTINGS else label


@st.composite
def some_stops(draw, tasks, steps, window=1):
    """Stops that leave a task which every sampler draws: the policy's last is never drawn."""
    left = draw(st.integers(0, max(tasks - 2, 0)))
    one = st.tuples(st.integers(0, steps // window).map(lambda k: k * window), st.integers(0, tasks - 1))
    return [stop for stop in draw(st.lists(one, max_size=4)) if stop[1] != left]


def window_of(mixed, group_by_length):
    """The steps at whose multiples a stop may begin."""
    return WINDOW if mixed and group_by_length else 1
