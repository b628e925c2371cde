"""What every sampler is: a short file of settings that says how steps choose tasks.

Nothing here imports numpy: a run file is checked before anything is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from weft.sampling.choice import Segment
    from weft.sampling.draws import Ints


class Sampler(BaseModel, ABC):
    """A policy of choosing tasks, by the sizes of their training sets.

    Attributes:
        name: the name it is registered under.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]

    def __init__(self, **settings: Any) -> None:
        """Take the settings by name; every wrong one is told at once."""
        try:
            super().__init__(**settings)
        except ValidationError as invalid:
            raise WeftError(_explain(self.name, type(self), invalid)) from None

    @abstractmethod
    def segments(self, sizes: Ints, steps: int) -> list[Segment]:
        """How the steps choose: stretches of steps that follow each other from 0 to `steps`.

        A policy that never changes is one segment; one that changes with time is piecewise constant.

        Args:
            sizes: the number of training examples of each task, all at least 1, [T].
            steps: how many steps the run has.
        """

    def settings(self) -> dict[str, Any]:
        """The sampler as a run file would say it, complete."""
        return {"use": self.name, **self.model_dump(mode="json")}


def _explain(name: str, cls: type[Sampler], invalid: ValidationError) -> str:
    lines = []
    for error in invalid.errors():
        key = ".".join(str(part) for part in error["loc"][:1]) or "settings"
        if error["type"] == "extra_forbidden":
            known = did_you_mean(key, cls.model_fields) if cls.model_fields else "it has none"
            lines.append(f"  {key}: no such setting; {known}")
        else:
            lines.append(f"  {key}: {error['msg'].removeprefix('Value error, ')}; found {error['input']!r}")
    return f"sampler {name!r} has wrong settings:\n" + "\n".join(dict.fromkeys(lines))
