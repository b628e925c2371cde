"""Settings: models of named values that tell every mistake at once, in our words. No torch, no numpy."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from weft.errors import WeftError, did_you_mean


class SettingsError(WeftError):
    """Wrong settings.

    Attributes:
        mistakes: each mistake as (key, what is wrong with it).
    """

    def __init__(self, what: str, mistakes: list[tuple[str, str]]) -> None:
        self.mistakes = mistakes
        super().__init__(
            f"{what} has wrong settings:\n" + "\n".join(f"  {k}: {text}" for k, text in mistakes)
        )


class Settings(BaseModel):
    """Frozen, and without keys that nobody declared.

    Attributes:
        what: what the settings are of, as messages say it ("method 'lora'").
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: ClassVar[str]

    def __init__(self, **settings: Any) -> None:
        """Take the settings by name; every wrong one is told at once."""
        try:
            super().__init__(**settings)
        except ValidationError as invalid:
            raise SettingsError(self.what, _explain(invalid, list(type(self).model_fields))) from None


class Named(Settings):
    """Settings of something registered by name: `{use: NAME, …}` in a run file.

    Attributes:
        name: the name it is registered under.
    """

    name: ClassVar[str]

    def settings(self) -> Any:
        """As a run file would say it, complete."""
        return {"use": self.name, **self.model_dump(mode="json")}


def _explain(invalid: ValidationError, known: list[str]) -> list[tuple[str, str]]:
    told: dict[tuple[str, str], None] = {}
    for error in invalid.errors():
        key = str(error["loc"][0]) if error["loc"] else "settings"
        if error["type"] == "extra_forbidden":
            text = f"no such setting; {did_you_mean(key, known) if known else 'it has none'}"
        elif error["type"] == "missing":
            text = "is missing; it has no default"
        elif error["type"] == "value_error":
            text = error["msg"].removeprefix("Value error, ")
        else:
            expected = error["msg"].removeprefix("Input should be ")
            text = f"expected {expected}; found {error['input']!r}"
        told[key, text] = None
    return list(told)
