"""Filling a model from a foreign state dict: which key goes where, and what is wrong with the keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from weft.errors import WeftError, did_you_mean

SHOWN = 6
"""So many keys of each mistake are named, and the rest are counted."""


@dataclass
class Places:
    """Where every key of a foreign state dict goes.

    Attributes:
        of: for each expected key its shape and the tensors that take its values: several where one value has
            several places, none where the foreign code never reads it.
    """

    of: dict[str, tuple[tuple[int, ...], list[Tensor]]] = field(default_factory=dict)

    def put(self, key: str, *targets: Tensor) -> None:
        """Expect a key with the shape of its targets."""
        self.of[key] = (tuple(targets[0].shape), list(targets))

    def ignore(self, key: str, like: Tensor) -> None:
        """Expect a key that has no effect, with the shape of another."""
        self.of[key] = (tuple(like.shape), [])

    @torch.no_grad()
    def fill(self, state: Mapping[str, Tensor]) -> None:
        """Copy every value to its places.

        Keys that are missing, that nothing expects, of another shape, or that should hold the same values as
        another key and do not are all named, before anything is copied.
        """
        mistakes = []
        missing = [key for key in self.of if key not in state]
        unknown = [key for key in state if key not in self.of]
        if missing:
            mistakes.append(f"missing: {_some(missing)}")
        if unknown:
            mistakes.append(f"unexpected: {_some(unknown)}")
            if missing:
                mistakes[-1] += f"; {did_you_mean(unknown[0], missing)}"
        for key, (shape, _) in self.of.items():
            if key in state and tuple(state[key].shape) != shape:
                mistakes.append(f"{key} has shape {list(state[key].shape)}; expected {list(shape)}")
        mistakes += self._untied(state)
        odd = [key for key in self.of if key in state and not state[key].isfinite().all()]
        if odd:
            mistakes.append(f"not finite: {_some(odd)}")
        if mistakes:
            raise WeftError(
                "the state dict does not fit its configuration:\n" + "\n".join(f"  {m}" for m in mistakes)
            )
        for key, (_, targets) in self.of.items():
            for target in targets:
                target.copy_(state[key])

    def _untied(self, state: Mapping[str, Tensor]) -> list[str]:
        """Keys that go to one place and hold different values."""
        first: dict[tuple[int, tuple[int, ...]], str] = {}
        found = []
        for key, (_, targets) in self.of.items():
            if key not in state:
                continue
            for target in targets:
                place = (target.data_ptr(), tuple(target.shape))
                other = first.setdefault(place, key)
                if other == key:
                    continue
                if state[other].shape == state[key].shape and not torch.equal(state[other], state[key]):
                    found.append(f"{key} differs from {other}, with which it is tied; expected the same")
        return found[:SHOWN]


def _some(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return ", ".join(keys[:SHOWN]) + more
