"""Reads single keys of a grid. A mistake is recorded with its key, and a harmless value is returned."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from weft.config.reading import Reading
from weft.config.run_file import SECTIONS
from weft.errors import did_you_mean

MOST_SEEDS = 1000
ACTIONS = ("start_from", "policy_from", "grow", "assemble", "peer")
"""What a variant may do instead of training from the encoder; see `weft.experiments.actions`."""
BY_HAND = ("train", "seed")
"""The key that seeds set."""
TUNE = "tune"
"""The key of a variant whose tuned values are not those of the grid."""

AxisParts = tuple[tuple[str, ...], dict[str, Any]]


def read_seeds(value: object, reading: Reading) -> tuple[int, ...]:
    """Read `seeds`: a number n (1 to n), or a list."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_SEEDS:
        return tuple(range(1, value + 1))
    if isinstance(value, list) and value and all(type(seed) is int and seed >= 0 for seed in value):
        if len(set(value)) < len(value):
            reading.wrong(["seeds"], f"{value} names a seed twice")
        return tuple(dict.fromkeys(value))
    reading.wrong(
        ["seeds"], f"expected the number of seeds (1 to {MOST_SEEDS}) or a list of them; found {value!r}"
    )
    return (1,)


def read_word(key: str, value: object, reading: Reading, known: Collection[str] | None = None) -> str:
    """Read a text, or one of several words."""
    if value is None:
        return ""
    if not isinstance(value, str):
        reading.wrong([key], f"expected a text; found {value!r}")
        return ""
    if known is not None and value not in known:
        reading.wrong([key], f"{value!r} does not exist; {did_you_mean(value, list(known))}")
        return next(iter(known))
    return value


def read_keep(value: object, reading: Reading) -> bool:
    """Read `keep`."""
    if not isinstance(value, bool):
        reading.wrong(["keep"], f"expected true or false; found {value!r}")
    return value is True


def read_cautions(value: object, reading: Reading) -> tuple[str, ...]:
    """Read `cautions`: a list of sentences."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        reading.wrong(["cautions"], f"expected a list of sentences; found {value!r}")
        return ()
    return tuple(" ".join(text.split()) for text in value)


def read_axes(section: str, value: object, reading: Reading, within: Sequence[str] = ()) -> list[AxisParts]:
    """Read axes: the values of a key as a list, or by the labels that name them.

    Args:
        section: the key of the grid, for messages: `axes` or `tune`.
        value: such as {"method": ["full", "lora"], "train.lr": {"small": 1e-5, "large": 1e-3}}.
        reading: records what is wrong.
        within: where the key is, if it is not at the top of the grid: ["variants", NAME].
    """
    if value is None:
        return []
    if not isinstance(value, dict) or not value:
        reading.wrong([*within, section], f"expected keys of the run file with their values; found {value!r}")
        return []
    axes = []
    for key, values in value.items():
        at = [*within, section, str(key)]
        place = tuple(str(key).split("."))
        if place == BY_HAND:
            reading.wrong(at, "seeds are no axis; write seeds: [1, 2, 3]")
            continue
        if not check_place(place, at, reading):
            continue
        if isinstance(values, dict) and values:
            labelled = {str(label): item for label, item in values.items()}
        elif isinstance(values, list) and values:
            labels = [label_of(item) for item in values]
            if twice := next((label for label in labels if labels.count(label) > 1), None):
                reading.wrong(at, f"two values have the label {twice!r}; label them: {{NAME: VALUE, …}}")
            labelled = dict(zip(labels, values, strict=True))
        else:
            reading.wrong(at, f"expected a list of values, or labels with values; found {values!r}")
            continue
        axes.append((place, labelled))
    return axes


def check_place(place: Sequence[str], at: Sequence[str], reading: Reading) -> bool:
    """Record whether a key cannot be one of a run file."""
    if place[0] in SECTIONS or place[0] in ACTIONS:
        return True
    reading.wrong(at, f"no such section of a run file; {did_you_mean(place[0], SECTIONS)}")
    return False


def label_of(value: Any) -> str:
    """The label of a value without one: `lora`, `1e-05`, `use=lora rank=4`, `a+b` of a list."""
    if isinstance(value, dict):
        rest = " ".join(f"{key}={label_of(item)}" for key, item in value.items() if key != "use")
        return " ".join(part for part in (str(value.get("use", "")), rest) if part)
    if isinstance(value, list):
        return "+".join(label_of(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def check_entries(value: object, reading: Reading) -> dict[str, dict[str, Any]]:
    """Check `variants`: names with the settings in which each differs from the base."""
    if value is None:
        return {"": {}}
    if not isinstance(value, dict) or not value:
        reading.wrong(
            ["variants"],
            f"expected names with settings, such as uniform: {{train.sampler: uniform}}; found {value!r}",
        )
        return {"": {}}
    entries: dict[str, dict[str, Any]] = {}
    for name, settings in value.items():
        at = ["variants", str(name)]
        if settings is not None and not isinstance(settings, dict):
            reading.wrong(at, f"expected settings, such as {{train.sampler: uniform}}; found {settings!r}")
            continue
        entries[str(name)] = settings or {}
        doing = [key for key in settings or {} if key in ACTIONS]
        if len(doing) > 1:
            reading.wrong(at, f"{' and '.join(doing)}: expected one of them")
        for key in settings or {}:
            place = str(key).split(".")
            if key == TUNE:
                read_axes(TUNE, (settings or {})[key], reading, at)
            elif tuple(place) == BY_HAND:
                reading.wrong([*at, str(key)], "the seed is no setting of a variant; write seeds: [1, 2, 3]")
            else:
                check_place(place, [*at, str(key)], reading)
    return entries or {"": {}}


def read_exclude(value: object, axes: Sequence[str], reading: Reading) -> tuple[dict[str, Any], ...]:
    """Read `exclude`: combinations of labels that are left out."""
    if value is None:
        return ()
    if not isinstance(value, list):
        reading.wrong(["exclude"], f"expected a list, such as [{{variant: NAME}}]; found {value!r}")
        return ()
    known = ["variant", "seed", *axes]
    for number, entry in enumerate(value):
        at = ["exclude", str(number)]
        if not isinstance(entry, dict) or not entry:
            reading.wrong(at, f"expected labels by axis, such as {{variant: NAME}}; found {entry!r}")
            continue
        for key in entry:
            if key not in known:
                reading.wrong(at, f"{key!r} is no axis; {did_you_mean(str(key), known)}")
    return tuple({str(k): v for k, v in entry.items()} for entry in value if isinstance(entry, dict))


def read_tune(value: object, seeds: int, reading: Reading) -> tuple[list[AxisParts], int] | None:
    """Read `tune`: the values that are tried, and with how many seeds."""
    if value is None:
        return None
    if not isinstance(value, dict) or not {"over"} <= set(value) <= {"over", "seeds"}:
        reading.wrong(["tune"], f"expected {{over: {{train.lr: [1e-4, 1e-3]}}, seeds: 1}}; found {value!r}")
        return None
    tried = value.get("seeds", 1)
    if type(tried) is not int or not 1 <= tried <= seeds:
        reading.wrong(
            ["tune", "seeds"], f"expected 1 to {seeds}, the grid's number of seeds; found {tried!r}"
        )
        tried = 1
    return read_axes("tune", value["over"], reading), tried


def check_own_tuning(
    variants: Mapping[str, Mapping[str, Any]], tuned: Sequence[str] | None, reading: Reading
) -> None:
    """Check that variants with tuned values of their own tune keys that the grid tunes.

    Args:
        variants: the settings of each variant.
        tuned: the keys that the grid tunes; None: it has no `tune`.
        reading: records what is wrong.
    """
    for name, settings in variants.items():
        own = settings.get(TUNE)
        for key in own if isinstance(own, dict) else ():
            if tuned is None:
                reading.wrong(["variants", name, TUNE], "the grid has no tune; expected one, with over")
                break
            if str(key) not in tuned:
                reading.wrong(
                    ["variants", name, TUNE, str(key)],
                    f"the grid does not tune it; {did_you_mean(str(key), tuned)}",
                )


def read_measures(value: object, reading: Reading) -> tuple[str, ...]:
    """Read `measures`: a list of names."""
    from weft.experiments.measures import MEASURES

    if value is None:
        return ()
    if not isinstance(value, list):
        reading.wrong(["measures"], f"expected a list, such as [similarity]; found {value!r}")
        return ()
    for number, name in enumerate(value):
        if name not in MEASURES:
            reading.wrong(
                ["measures", str(number)], f"{name!r} does not exist; {did_you_mean(str(name), MEASURES)}"
            )
    return tuple(dict.fromkeys(str(name) for name in value if name in MEASURES))


def read_contrasts(value: object, reading: Reading) -> tuple[tuple[str, str], ...]:
    """Read `contrasts`: pairs of variants."""
    if value is None:
        return ()
    if not isinstance(value, list):
        reading.wrong(["contrasts"], f"expected pairs of variants, such as [[lora, full]]; found {value!r}")
        return ()
    pairs: list[tuple[str, str]] = []
    for number, pair in enumerate(value):
        if not isinstance(pair, list) or len(pair) != 2 or pair[0] == pair[1]:
            reading.wrong(["contrasts", str(number)], f"expected two different variants; found {pair!r}")
        else:
            pairs.append((str(pair[0]), str(pair[1])))
    return tuple(pairs)


def read_claims(value: object, reading: Reading) -> list[tuple[str, str]]:
    """Read `claims`: sentences with their tests."""
    if value is None:
        return []
    if not isinstance(value, list):
        reading.wrong(["claims"], f"expected a list of {{text: …, test: …}}; found {value!r}")
        return []
    claims = []
    for number, entry in enumerate(value):
        parts: Mapping[str, Any] = entry if isinstance(entry, dict) else {"test": entry}
        if not isinstance(parts.get("test"), str) or not set(parts) <= {"text", "test"}:
            reading.wrong(["claims", str(number)], f"expected {{text: …, test: …}}; found {entry!r}")
            continue
        claims.append((str(parts.get("text", parts["test"])), str(parts["test"])))
    return claims
