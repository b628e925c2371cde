"""`counterfactual`: a fixed policy over tasks; `weft policy` learns one from logs of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from weft.errors import WeftError, did_you_mean
from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints

TOLERANCE = 1e-3
"""The tolerated deviation of the sum of probabilities from 1, for rounded values; they are normalized."""


def read_policy(path: str | Path) -> dict[str, float]:
    """Read a policy from a YAML or JSON file: `{task: probability}`, possibly under the key `policy`.

    Args:
        path: a file such as `weft policy --out` writes; relative to the working directory.
    """
    from weft.utils.safe_json import parse_json
    from weft.utils.safe_yaml import YamlError, parse_yaml

    file = Path(path).expanduser()
    if not file.is_file():
        raise WeftError(
            f"policy: there is no file {str(path)!r}; expected a policy such as {{cola: 0.25, rte: 0.75}}, "
            f"or a learned one: weft policy RUN --out {path}"
        )
    try:
        text = file.read_text(encoding="utf-8")
        content = parse_json(text) if file.suffix.lower() == ".json" else parse_yaml(text)
    except (ValueError, YamlError) as wrong:
        raise WeftError(f"policy: {path} can be read neither as YAML nor as JSON: {wrong}") from None
    if isinstance(content, Mapping) and isinstance(content.get("policy"), Mapping):
        content = content["policy"]
    try:
        return _checked(content)
    except ValueError as wrong:
        raise WeftError(f"policy: {path}: {wrong}") from None


def _policy(value: object) -> object:
    """Parse the setting of a run file: the probabilities by task, or the file that holds them."""
    if isinstance(value, str | Path):
        try:
            return read_policy(value)
        except WeftError as wrong:
            raise ValueError(str(wrong).removeprefix("policy: ")) from None
    return _checked(value)


def _checked(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"expected one probability per task, {{cola: 0.25, rte: 0.75}}; found {value!r}")
    policy: dict[str, float] = {}
    for task, p in value.items():
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1 + TOLERANCE:
            raise ValueError(f"{task}: expected a probability from 0 to 1; found {p!r}")
        policy[str(task)] = float(p)
    total = math.fsum(policy.values())
    if abs(total - 1) > TOLERANCE:
        raise ValueError(f"the probabilities must sum to 1; found {total:.6g} over {len(policy)} tasks")
    return policy


class Counterfactual(Sampler):
    """p_i as configured: a fixed stochastic policy (Glover and Hokamp 2019, arXiv 1907.06214).

    In the paper the policy is learned before the run from logged rewards by counterfactual (importance
    weighted) estimation. `weft policy RUN … --out policy.yaml` does that; `weft.analysis.policy` describes
    the method and its choices. The sampler only follows the policy, which does not change during the run.

    `policy` may name a file; the settings then hold its probabilities, so that a run's run.yaml needs no
    other file and a resumed run samples as before.
    """

    name = "counterfactual"
    summary = (
        "fixed by `policy`: configured, or learned from logs by `weft policy` ([policies.md](policies.md))"
    )

    policy: Annotated[dict[str, float], BeforeValidator(_policy)] = Field(
        description="the probability of each task, {cola: 0.25, rte: 0.75}, or a file that holds them, "
        "such as `weft policy` writes"
    )

    def check(self, names: Sequence[str]) -> None:
        """Refuse a policy that lacks one of these tasks or names others.

        Args:
            names: the tasks of the run, [T].
        """
        for task in self.policy:
            if task not in names:
                raise WeftError(
                    f"sampler.policy: {task!r} is not a task of this run; {did_you_mean(task, names)}"
                )
        missing = [name for name in names if name not in self.policy]
        if missing:
            raise WeftError(
                f"sampler.policy: no probability for {', '.join(missing)}; expected one for each of the "
                f"run's {len(names)} tasks (0: never sampled)"
            )

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment, with the probabilities in the order of `names`, [T]."""
        import numpy as np

        from weft.sampling.plan.choice import Chance, Segment

        self.check(names)
        p: Any = np.array([self.policy[name] for name in names])
        return [Segment(0, steps, Chance(p / p.sum()))]
