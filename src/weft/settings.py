"""The base classes of settings: pydantic models that report all mistakes in one error. No torch, no numpy."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from weft.errors import WeftError, did_you_mean

LARGEST = 2**31 - 1
"""The largest whole number of a setting; larger ones are absurd, and would be noticed only much later."""
LARGEST_SEED = 2**63 - 1
"""The largest random seed."""


class SettingsError(WeftError):
    """An error that lists all wrong settings.

    Attributes:
        mistakes: one (key, description) per mistake.
    """

    def __init__(self, what: str, mistakes: list[tuple[str, str]]) -> None:
        self.mistakes = mistakes
        super().__init__(
            f"{what} has wrong settings:\n" + "\n".join(f"  {k}: {text}" for k, text in mistakes)
        )


class Settings(BaseModel):
    """The base class of settings: immutable, and unknown keys are errors.

    Attributes:
        what: what the settings belong to, for messages ("method 'lora'").
        largest: the largest whole number of a setting that is not a random seed; a field may have a smaller
            limit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: ClassVar[str]
    largest: ClassVar[int] = LARGEST

    def __init__(self, **settings: Any) -> None:
        """Check the settings; one `SettingsError` lists all mistakes."""
        try:
            super().__init__(**settings)
        except ValidationError as invalid:
            raise SettingsError(self.what, _explain(invalid, list(type(self).model_fields))) from None
        if absurd := [mistake for key in type(self).model_fields for mistake in self._absurd(key)]:
            raise SettingsError(self.what, absurd)

    def _absurd(self, key: str) -> list[tuple[str, str]]:
        """Return the mistake that a setting contains a whole number that is too large, if it does."""
        limit = LARGEST_SEED if key.endswith("seed") else self.largest
        waiting = [getattr(self, key)]
        while waiting:
            value = waiting.pop()
            if isinstance(value, int) and abs(value) > limit:
                return [(key, f"expected at most {limit:,}; found {_shown(value)}")]
            if isinstance(value, dict):
                waiting += value.values()
            elif isinstance(value, list | tuple):
                waiting += value
        return []


class Named(Settings):
    """Settings of something registered by name: `{use: NAME, …}` in a run file.

    Attributes:
        name: the name it is registered under.
    """

    name: ClassVar[str]

    def settings(self) -> Any:
        """All settings, as a run file would contain them."""
        return {"use": self.name, **self.model_dump(mode="json")}


def _shown(value: object) -> str:
    """The repr of a value; Python refuses to print a number of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"a number of about {value.bit_length() * 3 // 10:,} digits"
    return repr(value)


def _explain(invalid: ValidationError, known: list[str]) -> list[tuple[str, str]]:
    mistakes: dict[tuple[str, str], None] = {}  # a dictionary, to drop repetitions and keep the order
    for error in invalid.errors():
        key = str(error["loc"][0]) if error["loc"] else "settings"
        if error["type"] == "extra_forbidden":
            text = f"no such setting; {did_you_mean(key, known) if known else 'there are none'}"
        elif error["type"] == "missing":
            text = "is missing, and has no default"
        elif error["type"] == "value_error":
            text = error["msg"].removeprefix("Value error, ")
        else:
            expected = error["msg"].removeprefix("Input should be ")
            text = f"expected {expected}; found {_shown(error['input'])}"
        mistakes[key, text] = None
    return list(mistakes)
