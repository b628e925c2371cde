"""The accounts and repositories of the stand-in for the hub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

TOKEN = "hf_standin"
"""The token of the account `anna`."""
READER = "hf_reader"
"""A token that may not write."""


@dataclass
class StoredRepository:
    """A repository: its commits by hash, and what its branches point to."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, branch: str, files: Mapping[str, bytes], message: str) -> str:
        """Put a new state of all files on a branch; returns its hash."""
        listed = sorted((path, hashlib.sha256(data).hexdigest()) for path, data in files.items())
        text = json.dumps([listed, message, len(self.commits)])
        sha = hashlib.sha1(text.encode()).hexdigest()
        self.commits[sha] = dict(files)
        self.branches[branch] = sha
        self.messages.append(message)
        return sha

    def resolve(self, revision: str) -> str | None:
        """The hash of a branch, or of a commit."""
        revision = unquote(revision)
        return self.branches.get(revision) or (revision if revision in self.commits else None)

    @property
    def files(self) -> dict[str, bytes]:
        """The files of the branch main."""
        return self.commits[self.branches["main"]]
