"""Repositories of the Hugging Face hub: their names, and what went wrong with one, in words.

No package of Hugging Face is imported before an error of it is to be explained.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from weft.errors import WeftError, words

MAIN = "main"
"""The revision that is meant if none is named."""
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?P<id>{_PART}/{_PART})(?:@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]{{0,199}}))?")
_SNAPSHOT = re.compile(r"models--(?P<owner>[^/]+?)--(?P<name>.+)")


@dataclass(frozen=True)
class Repository:
    """A model's repository on the hub, at one revision.

    Attributes:
        id: `user/name`.
        revision: a branch, a tag or a commit.
    """

    id: str
    revision: str = MAIN

    def __str__(self) -> str:
        return self.id if self.revision == MAIN else f"{self.id}@{self.revision}"


def repository(name: str | Path) -> Repository | None:
    """Return the repository that `user/name` or `user/name@revision` means; None for any other text.

    Whether a folder of this name exists is not asked here.

    Example:
        >>> repository("anna/reviews@v2")
        Repository(id='anna/reviews', revision='v2')
    """
    text = name.as_posix() if isinstance(name, PurePath) else str(name)
    match = _NAME.fullmatch(text)
    if match is None or any(bad in text for bad in ("--", "..", "//")) or text.endswith((".git", "/")):
        return None
    return Repository(match["id"], match["revision"] or MAIN)


def in_hub_cache(folder: Path) -> str | None:
    """Return the repository whose snapshot in the hub's cache a folder is; None for any other folder.

    Args:
        folder: the folder; `…/models--USER--NAME/snapshots/COMMIT` is one of the cache.
    """
    parent = folder.resolve().parent
    match = _SNAPSHOT.fullmatch(parent.parent.name) if parent.name == "snapshots" else None
    return None if match is None else f"{match['owner']}/{match['name']}"


def check_not_in_cache(folder: Path) -> None:
    """Refuse to change a bundle in the cache of the hub, which mirrors what others have published."""
    if (name := in_hub_cache(folder)) is not None:
        raise WeftError(
            f"{name} was loaded from the hub and cannot be changed here; change a copy of it:\n"
            f"  hf download {name} --local-dir FOLDER"
        )


def hub_error(error: BaseException, where: Repository, doing: str) -> WeftError:
    """Return what an error of the hub's client means for the user, as one message.

    Args:
        error: what huggingface_hub, or the connection below it, has raised.
        where: the repository.
        doing: what failed, such as "cannot be loaded from the hub".
    """
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, GatedRepoError):
        why = "its owner decides who may read it"
        hint = f"ask for access on its page, then log in: {log_in()}"
    elif isinstance(error, RevisionNotFoundError):
        why = f"it has no revision {where.revision!r}"
        hint = f"leave the revision out to use {MAIN}, or name a branch, tag or commit that its page lists"
    elif isinstance(error, RepositoryNotFoundError) or status == 404:
        missing = isinstance(error, EntryNotFoundError) and not isinstance(error, RepositoryNotFoundError)
        why = "a file of it is missing" if missing else "there is no such repository, or it is private"
        hint = f"check the spelling; for a private one log in: {log_in()}"
    elif status in (401, 403):
        why = "the hub refuses your token" if status == 401 else "your token does not allow this"
        hint = f"use a token of an account that may write there, with the right to write: {log_in()}"
        if status == 401:
            hint = f"log in again: {log_in()}"
    elif status in (409, 412):
        why, hint = "it was changed by somebody else at the same time", "try again"
    elif status == 429:
        why, hint = "too many requests", "wait a few minutes and try again"
    elif isinstance(error, HfHubHTTPError) and status is not None and status >= 500:
        why, hint = f"the hub has a problem (status {status})", "try again later"
    else:
        why, hint = first_line(error), "check the network and try again"
    return WeftError(f"{where} {doing}: {why}\n  {hint}")


def log_in() -> str:
    """How to store a token of the hub."""
    return words("hf auth login, or set HF_TOKEN", "huggingface_hub.login(), or set HF_TOKEN")


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something; the name of its class if there is none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
