"""A damaged token cache: the tokens must be made again, whatever is wrong with the entry."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz.base import Base
from tests.fuzz.case import Case
from tests.fuzz.folder_damage import copied, damage_folder


def build_token_cache(draw: Random, base: Base, folder: Path) -> Case:
    """A copy of the token cache with damaged entries. The cache of a case is the folder `cache`."""
    cache = copied(base.cache, folder / "cache")
    damage_folder(draw, cache, times=6)
    commands = (
        ("train", str(base.run_file), "train.steps=1", "--out", "out"),
        ("evaluate", str(base.run("ended"))),
        ("check", str(base.run_file), "--no-estimate"),
    )
    # nothing but the cache is wrong, so every call must succeed
    return Case(draw.choice(commands), codes=())
