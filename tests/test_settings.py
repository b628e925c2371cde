"""Whole numbers of settings: absurd ones are refused before anything is built."""

from __future__ import annotations

import pytest
from pydantic import Field

from weft.core.gate_settings import L0
from weft.errors import WeftError
from weft.methods import METHODS, build_method
from weft.model.head_settings import HeadSettings
from weft.settings import LARGEST, LARGEST_SEED, Settings, SettingsError
from weft.tasks.task import Task
from weft.training.settings import MOST_STEPS, Training


class Numbers(Settings):
    """Settings of every form."""

    what = "numbers"

    count: int = 0
    split_seed: int = 0
    by_name: dict[str, int] = Field(default_factory=dict)
    several: list[int] = Field(default_factory=list)
    share: float = 0.0
    flag: bool = False


@pytest.mark.parametrize("key", ["count", "by_name", "several"])
@pytest.mark.parametrize("value", [LARGEST + 1, -LARGEST - 1, 2**63, 10**9000], ids=range(4))
def test_numbers_that_are_too_large_are_named(key, value):
    setting = {"count": value, "by_name": {"a": 1, "b": value}, "several": [1, value]}[key]
    with pytest.raises(
        SettingsError, match=rf"{key}: expected at most 2,147,483,647; found (-?\d+|a number of about)"
    ):
        Numbers(**{key: setting})


def test_numbers_at_the_limit():
    Numbers(count=LARGEST, several=[-LARGEST], split_seed=LARGEST_SEED, share=1e300, flag=True)
    with pytest.raises(SettingsError, match="split_seed: expected at most 9,223,372,036,854,775,807"):
        Numbers(split_seed=LARGEST_SEED + 1)


@pytest.mark.parametrize(
    "key", [name for name, field in Training.model_fields.items() if "int" in str(field.annotation)]
)
def test_every_number_of_a_run_has_a_limit(key):
    with pytest.raises(SettingsError, match=f"{key}: expected (at most|less than)"):
        Training(**{key: 2**63})


@pytest.mark.parametrize(
    ("key", "most"),
    [("steps", MOST_STEPS), ("batch_size", 131_072), ("accumulate", 65_536), ("max_length", 1_000_000)],
)
def test_sizes_of_a_run(key, most):
    assert getattr(Training(**{key: most}), key) == most
    with pytest.raises(SettingsError, match=f"{key}: expected less than or equal to {most}"):
        Training(**{key: most + 1})


@pytest.mark.parametrize("name", METHODS)
def test_every_number_of_a_method_has_a_limit(name):
    numbers = [
        key for key, field in METHODS[name].model_fields.items() if "int" in str(field.annotation).lower()
    ]
    for key in numbers:
        if "Layers" in str(METHODS[name].model_fields[key].annotation):
            continue
        value = {"0/query": 10**9} if key.endswith("pattern") else 10**9
        with pytest.raises(WeftError):
            build_method({"use": name, key: value})


def test_other_numbers():
    with pytest.raises(SettingsError, match=r"steps: expected less .* found a number of about 8,969 digits"):
        Training(steps=10**9000)
    with pytest.raises(SettingsError, match="hidden: expected less than or equal to 65536"):
        HeadSettings(hidden=65_537)
    with pytest.raises(SettingsError, match="steps: expected less than or equal to 100000000"):
        L0(steps=10**9)
    with pytest.raises(WeftError, match="size: expected at most 1,000,000 outputs; found 1000000000"):
        Task("a", size=10**9)
    with pytest.raises(WeftError, match="hidden: expected a width above 0, at most 65,536; found 65537"):
        Task("a", size=2, hidden=65_537)


def test_many_labels_of_which_one_is_listed_twice():
    labels = [str(number) for number in range(200_000)]
    with pytest.raises(WeftError, match="label '199999' is listed twice"):
        Task("a", labels=[*labels, "199999"])
