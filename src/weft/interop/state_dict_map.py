"""Filling a model from a foreign state dict: the target of each key, and the check of the keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from weft.errors import WeftError, did_you_mean

SHOWN = 6
"""At most this many keys are named for each mistake; the others are counted."""


@dataclass
class Places:
    """The target tensors of every key of a foreign state dict.

    Attributes:
        of: for each expected key its shape and its target tensors: several if one value is used in several
            places, none if the foreign code never reads it.
    """

    of: dict[str, tuple[tuple[int, ...], list[Tensor]]] = field(default_factory=dict)

    def put(self, key: str, *targets: Tensor) -> None:
        """Expect a key with the shape of its targets."""
        self.of[key] = (tuple(targets[0].shape), list(targets))

    def ignore(self, key: str, like: Tensor) -> None:
        """Expect a key that has no effect, with the shape of a tensor."""
        self.of[key] = (tuple(like.shape), [])

    @torch.no_grad()
    def fill(self, state: Mapping[str, Tensor]) -> None:
        """Copy every value to its targets.

        Keys that are missing, unexpected, of a wrong shape, or different from a key that they are tied to are
        all named in one error, before anything is copied.
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
        """Return messages for keys that have the same target and different values."""
        first: dict[tuple[int, tuple[int, ...]], str] = {}
        messages = []
        for key, (_, targets) in self.of.items():
            if key not in state:
                continue
            for target in targets:
                storage = (target.data_ptr(), tuple(target.shape))
                first_key = first.setdefault(storage, key)
                if first_key == key:
                    continue
                if state[first_key].shape == state[key].shape and not torch.equal(
                    state[first_key], state[key]
                ):
                    messages.append(
                        f"{key} differs from {first_key}, to which it is tied; expected equal values"
                    )
        return messages[:SHOWN]


def _some(keys: Sequence[str]) -> str:
    others = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return ", ".join(keys[:SHOWN]) + others
