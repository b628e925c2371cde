"""The plan of a run as its stops leave it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.sampling.plan.plan import Plan

Stops = Sequence[tuple[int, int]]


class Course:
    """Follows a plan, and takes tasks out of it.

    Args:
        whole: the plan without stops.

    Attributes:
        plan: what is followed now.
        drawn: the tasks that it draws at all: a policy may give some the probability 0, and they never stop.
    """

    def __init__(self, whole: Plan) -> None:
        self.plan = self._whole = whole
        self.drawn = {int(t) for share in whole.shares() for t in np.flatnonzero(share.share)}

    def over(self, stops: Stops) -> bool:
        """Whether nobody is left to be drawn."""
        return self.drawn <= {task for _, task in stops}

    def follow(self, stops: Stops) -> None:
        """Take these stops, (step, task) each; steps before them stay as they were."""
        if not self.over(stops) and list(self.plan.stops) != list(stops):
            self.plan = self._whole.with_stops(stops)
