"""The key `encoder` of a run file."""

from __future__ import annotations

from weft.config.reading import Reading
from weft.encoder.catalogue import RANDOM, check_name, random_parts
from weft.encoder.packages import PACKAGES
from weft.errors import WeftError


def read_encoder(value: object, reading: Reading) -> str:
    """Return the name of the encoder; a folder is named in full, from where the run file is.

    A built-in name is the built-in encoder, as it is in Python, even if there is a folder of that name.

    Args:
        value: what the run file has.
        reading: takes mistakes and warnings.
    """
    if not isinstance(value, str):
        shown = "nothing" if value is None else repr(value)
        reading.wrong(
            ["encoder"], f"expected a hub id, a folder, minilm, mpnet, or random:bert-base; found {shown}"
        )
        return ""
    folder = reading.path(value)
    if value in PACKAGES:
        if (folder / "config.json").is_file():
            text = f"{value!r} is the built-in encoder; write ./{value} for the folder"
            reading.warnings.append(reading.located(["encoder"], text))
        return value
    if folder.is_dir():
        return str(folder)
    if folder.is_file():
        reading.wrong(["encoder"], f"{value!r} is a file; expected the folder of a checkpoint")
        return value
    if value.startswith(RANDOM):
        architecture, tokenizer = random_parts(value)
        if tokenizer and tokenizer not in PACKAGES and (beside := reading.path(tokenizer)).is_dir():
            value = f"{RANDOM}{architecture}@{beside}"
    try:
        check_name(value)
    except WeftError as wrong:
        reading.wrong(["encoder"], str(wrong))
    return value
