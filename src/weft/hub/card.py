"""The model card: README.md of a repository on the hub, with a header for programs and a body for readers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.bundle.manifest import find_bundle
from weft.errors import WeftError, words
from weft.hub.body import body
from weft.hub.facts import card_facts
from weft.hub.header import check_card, header
from weft.utils.files import write_output
from weft.utils.hub_repository import check_not_in_cache

if TYPE_CHECKING:
    from weft.hub.facts import CardFacts

CARD = "README.md"
"""The name of the card in a bundle and in a repository."""
LARGEST = 4 * 2**20
"""The largest card, in bytes."""
_MARK = "<!-- weft card "


def card(bundle: str | Path, name: str | None = None, **settings: Any) -> str:
    """Return the card of a bundle: the README.md in its folder if there is one, else a new one.

    Args:
        bundle: the bundle, or a run folder that holds one.
        name: `user/name`, as which it is published; None: not known yet.
        settings: passed to `card_facts`: `license`, `languages`, `encoder`, `run`, `tell`.
    """
    folder = find_bundle(bundle)
    if (own := own_card(folder)) is None:
        return new_card(card_facts(bundle, name, **settings))
    unused = without_effect(settings.get("license"), settings.get("languages", ()))
    if unused and "tell" in settings:
        settings["tell"](f"the card is {folder / CARD}, {unused}; edit it, or delete it to get a new one")
    return own


def without_effect(license: str | None, languages: str | Sequence[str]) -> str:
    """Say which settings of a new card have no effect on one that is there; nothing if none was set."""
    given = [words("--license", "license")] if license else []
    given += [words("--language", "languages")] if languages else []
    return f"so that {' and '.join(given)} {'have' if len(given) > 1 else 'has'} no effect" if given else ""


def new_card(facts: CardFacts) -> str:
    """Return a new card. Its last line says that nobody has edited it; see `is_edited`."""
    text = f"---\n{header(facts)}\n---\n\n{body(facts)}\n"
    return f"{text}{_MARK}{_digest(text)} -->\n"


def own_card(bundle: Path) -> str | None:
    """Return the card that is in a bundle's folder, which a user may have edited; None if there is none."""
    path = bundle / CARD
    if not path.is_file():
        return None
    return read_card(path)


def read_card(path: Path) -> str:
    """Read and check a card that a user has written or edited."""
    try:
        data = path.read_bytes()
        text = data.decode()
    except UnicodeDecodeError:
        raise WeftError(f"{path} is not a text in UTF-8; save it in this encoding") from None
    except OSError as wrong:
        raise WeftError(f"{path} cannot be read: {wrong.strerror or wrong}") from None
    if len(data) > LARGEST:
        raise WeftError(f"{path} has {len(data):,} bytes; a card has at most {LARGEST:,}")
    check_card(text, str(path))
    return text


def write_card(bundle: str | Path, text: str) -> Path:
    """Write a card into a bundle's folder, where a user can edit it; returns its path."""
    folder = find_bundle(bundle)
    check_not_in_cache(folder)
    write_output(folder / CARD, text)
    return folder / CARD


def is_edited(text: str) -> bool:
    """Return whether a card was changed after weft has written it, or was not written by weft.

    Line endings and space at the end do not count.
    """
    text = text.replace("\r\n", "\n").rstrip() + "\n"
    before, mark, digest = text.rpartition(_MARK)
    return not mark or digest.strip() != f"{_digest(before)} -->"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
