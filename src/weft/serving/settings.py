"""The settings of a server."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from weft.errors import WeftError, did_you_mean, words

PRECISIONS = ("float32", "bf16", "int8")


@dataclass(frozen=True)
class ServeSettings:
    """The settings of a server; each is an option of `weft serve`.

    Attributes:
        precision: `float32`; `bf16`, faster on a GPU; `int8`, faster on many CPUs. Outputs of the last two
            differ slightly.
        device: `cpu`, `cuda`, …; None: a GPU if there is one.
        encoder: folder or hub id of the encoder, if it has moved.
        backend: `torch`, or `onnx` for an export to ONNX; None: the one that the folder is for.
        threads: the number of CPU threads that run the model; None: one per core. How many batches run side
            by side, and on how many threads each, is measured at the start.
        tokens: token positions of a batch, padding included; None: 16,384 on a GPU, and on a CPU as many as
            make the overhead of a pass small, measured at the start.
        queue: the most texts that may wait; further requests get status 429.
        deadline: seconds after which a waiting request gets status 504; a request may set a shorter one.
        body: the most bytes of a request's body.
        texts: the most texts of a request.
        characters: the most characters of one text, of the texts of a pair together, or of a text with its
            choices together.
        read: seconds that a client has to send the body of a request.
        admin: whether tasks can be added, replaced and removed while the server runs.
        spare: with `admin`, the number of spare slots for each head shape: so many tasks of a shape can be
            added before the model is loaded again in the background.
        keys: API keys; without any, every client may send requests.
        admin_keys: API keys for changing tasks.
        cors: origins of web pages that may send requests; `*` means any.
        log: `requests`, one JSON line per request; `errors`, failed requests only; or `none`.
        log_texts: whether these lines contain the request's body.
        page: whether `/` shows a web page to try the tasks.
    """

    precision: str = "float32"
    device: str | None = None
    encoder: str | None = None
    backend: str | None = None
    threads: int | None = None
    tokens: int | None = None
    queue: int = 4096
    deadline: float = 30.0
    body: int = 8 << 20
    texts: int = 1024
    characters: int = 100_000
    read: float = 20.0
    admin: bool = False
    spare: int = 4
    keys: tuple[str, ...] = ()
    admin_keys: tuple[str, ...] = ()
    cors: tuple[str, ...] = ()
    log: str = "requests"
    log_texts: bool = False
    page: bool = True

    def __post_init__(self) -> None:
        _among("precision", self.precision, PRECISIONS)
        _among("log", self.log, ("requests", "errors", "none"))
        for name in ("queue", "body", "texts", "characters", "threads", "tokens"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise WeftError(f"{name}: expected a whole number of at least 1; found {value!r}")
        if self.spare < 0:
            raise WeftError(f"spare: expected 0 or more slots; found {self.spare!r}")
        for name in ("deadline", "read"):
            if not 0 < getattr(self, name) <= 86_400:
                raise WeftError(f"{name}: expected seconds, more than 0; found {getattr(self, name)!r}")
        if self.admin and self.keys and not self.admin_keys:
            option, keys = words("--admin", "admin=True"), words("--admin-keys FILE", "admin_keys=(KEY,)")
            raise WeftError(
                f"{option} with API keys would let clients without a key change tasks; add {keys}"
            )
        if self.texts > self.queue:
            raise WeftError(
                f"queue: expected at least as many texts as one request may have (texts: {self.texts}); "
                f"found {self.queue}"
            )

    @classmethod
    def of(cls, values: dict[str, Any]) -> ServeSettings:
        """Make settings from keyword arguments; an unknown one is an error."""
        names = [field.name for field in fields(cls)]
        for name in values:
            if name not in names:
                raise WeftError(f"serving has no setting {name!r}; {did_you_mean(name, names)}")
        return cls(**values)


def _among(name: str, value: str, expected: tuple[str, ...]) -> None:
    if value not in expected:
        raise WeftError(f"{name} {value!r}: expected {', '.join(expected[:-1])} or {expected[-1]}")
