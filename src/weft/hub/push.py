"""Publishing a bundle: one commit with its files and its card, to a repository of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weft.bundle.from_hub import is_bundle_file, megabytes
from weft.bundle.manifest import find_bundle
from weft.errors import WeftError, words
from weft.hub.card import CARD, LARGEST, is_edited, new_card, own_card, read_card, without_effect
from weft.hub.facts import card_facts, run_folder
from weft.hub.staging import Staged, bundle_to_push, stage
from weft.utils.hub import hub_problem, progress_bars
from weft.utils.hub_repository import MAIN, Repository, hub_error, log_in, repository
from weft.utils.notes import Tell, is_quiet, print_note
from weft.utils.version import __version__

DOING = "cannot be published on the hub"


@dataclass(frozen=True)
class Pushed:
    """What was published, or would be.

    Attributes:
        name: the repository, `user/name`.
        revision: the branch.
        files: the bytes of each uploaded file, by its path in the repository.
        removed: the files of an earlier bundle that were removed from the repository.
        commit: the hash of the commit; None: nothing was uploaded (`dry_run`).
        url: the address of the repository; None: nothing was uploaded.
        card: the text of the card.
    """

    name: str
    revision: str
    files: dict[str, int]
    removed: tuple[str, ...]
    commit: str | None
    url: str | None
    card: str

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values, without the card's text."""
        return {key: value for key, value in asdict(self).items() if key != "card"}


def push(
    model: Any,
    name: str,
    *,
    private: bool = False,
    message: str | None = None,
    revision: str | None = None,
    with_encoder: bool = False,
    card: str | Path | None = None,
    license: str | None = None,
    languages: str | Sequence[str] = (),
    encoder: Any = None,
    dry_run: bool = False,
    out: str | Path | None = None,
    progress: bool = True,
) -> Pushed:
    """Publish a bundle on the Hugging Face hub, with a model card. `weft.load(name)` loads it.

    Only the bundle's own files and the card are uploaded, in one commit. Files of an earlier bundle that the
    new one does not have are removed from the repository; other files there stay.

    Example:
        >>> weft.push("runs/first", "anna/reviews", private=True).url
        'https://huggingface.co/anna/reviews'

    Args:
        model: a bundle, the folder of a run that has one, or a `Model`.
        name: the repository, `user/name`; it is created if it does not exist.
        private: whether a new repository is private.
        message: the message of the commit.
        revision: the branch; it is created if it does not exist. None: main.
        with_encoder: whether to include the encoder, if the bundle does not.
        card: a file with the card; None: README.md of the bundle's folder if there is one, else a new one. A
            card that was edited in the repository is kept.
        license: the license of the model for a new card, such as `mit`.
        languages: the languages of its texts for a new card, such as `en`.
        encoder: the encoder, or its folder or hub id if it has moved.
        dry_run: upload nothing; the hub is not contacted.
        out: a new folder to write the files of the repository to; only with `dry_run`.
        progress: print notes and the bars of uploads, on standard error.
    """
    where = _target(name, revision)
    tell: Tell = print_note if progress else lambda note: None
    if out is not None and not dry_run:
        raise WeftError(
            f"{words('--out', 'out')} is the folder of a dry run, and nothing would be uploaded; add "
            f"{words('--dry-run', 'dry_run=True')}, or leave it out to upload"
        )
    if not dry_run:
        _check_ready(where)
    with bundle_to_push(model, with_encoder, encoder) as bundle:
        named = find_bundle(model) if isinstance(model, str | Path) else bundle
        text, new = _card(bundle, named, where, card, license, languages, encoder, tell)
        staged = stage(bundle, text)
        sizes = staged.sizes()
        if dry_run:
            if out is not None:
                staged.write(Path(out))
            return Pushed(where.id, where.revision, sizes, (), None, None, text)
        with _explained(where), progress_bars(progress and not is_quiet()):
            return _upload(where, staged, new, private, message, tell)


def _target(name: str, revision: str | None) -> Repository:
    where = repository(name)
    if where is None or where.revision != MAIN:
        hint = ""
        if where is not None:
            hint = f"; a branch is named by {words('--revision', 'revision')}"
        raise WeftError(f"{name!r} is not the name of a repository; expected user/name{hint}")
    if revision is None:
        return where
    target = repository(f"{name}@{revision}")
    if target is None:
        raise WeftError(
            f"{words('--revision', 'revision')} {revision!r} is not the name of a branch; expected letters, "
            "digits, . _ - and /"
        )
    return target


def _check_ready(where: Repository) -> None:
    """Refuse what cannot be published, before the model is loaded."""
    from huggingface_hub import get_token

    if problem := hub_problem():
        raise WeftError(
            f"{where} {DOING}: the hub cannot be reached ({problem})\n  check the network; to see what would "
            f"be uploaded: {words('--dry-run', 'dry_run=True')}"
        )
    if not get_token():
        raise WeftError(
            f"{where} {DOING}: there is no token that says who you are\n  log in with a token that may "
            f"write: {log_in()}"
        )


def _card(
    bundle: Path,
    named: Path,
    where: Repository,
    file: str | Path | None,
    license: str | None,
    languages: str | Sequence[str],
    encoder: Any,
    tell: Tell,
) -> tuple[str, bool]:
    """The text of the card, and whether it is a new one."""
    if file is not None:
        return read_card(Path(file)), False
    if (own := own_card(named)) is not None:
        unused = without_effect(license, languages)
        tell(f"the card is {named / CARD}{', ' * bool(unused)}{unused}; delete it to get a new one")
        return own, False
    facts = card_facts(
        bundle,
        where.id,
        run=run_folder(named),
        encoder=encoder,
        license=license,
        languages=(languages,) if isinstance(languages, str) else tuple(languages),
        tell=tell,
    )
    return new_card(facts), True


def _upload(
    where: Repository, staged: Staged, new_card: bool, private: bool, message: str | None, tell: Tell
) -> Pushed:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants

    api = HfApi(endpoint=constants.ENDPOINT, library_name="weft", library_version=__version__)
    url = str(api.create_repo(where.id, private=True if private else None, exist_ok=True))
    if where.revision != MAIN:
        api.create_branch(where.id, branch=where.revision, exist_ok=True)
    info = api.model_info(where.id, revision=where.revision, timeout=30)
    there = [file.rfilename for file in info.siblings or ()]
    files = dict(staged.files)
    if new_card and CARD in there and _edited_there(where, str(info.sha)):
        tell(f"{CARD} of {where} was edited there and is kept; to replace it, pass {words('--card', 'card')}")
        del files[CARD]
    removed = tuple(sorted(path for path in there if is_bundle_file(path) and path not in files))
    sizes = {path: size for path, size in staged.sizes().items() if path in files}
    tell(f"uploading {len(files)} files, {megabytes(sum(sizes.values()))}, to {where}")
    operations: list[Any] = [
        CommitOperationAdd(path, content if isinstance(content, bytes) else str(content.resolve()))
        for path, content in files.items()
    ]
    operations += [CommitOperationDelete(path) for path in removed]
    done = api.create_commit(
        where.id,
        operations,
        commit_message=message or "Bundle of weft " + __version__,
        revision=where.revision,
        parent_commit=info.sha,
    )
    text = staged.files[CARD]
    assert isinstance(text, bytes)
    return Pushed(where.id, where.revision, sizes, removed, done.oid, url, text.decode())


def _edited_there(where: Repository, commit: str) -> bool:
    """Whether the card in the repository is not one that weft wrote and nobody has edited."""
    from huggingface_hub import constants, hf_hub_download

    path = Path(hf_hub_download(where.id, CARD, revision=commit, endpoint=constants.ENDPOINT))
    return path.stat().st_size > LARGEST or is_edited(path.read_bytes().decode(errors="replace"))


@contextmanager
def _explained(where: Repository) -> Iterator[None]:
    """Inside, whatever the hub's client raises is a `WeftError`."""
    try:
        yield
    except (WeftError, MemoryError):
        raise
    except Exception as failed:
        raise hub_error(failed, where, DOING) from failed
