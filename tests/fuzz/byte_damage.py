"""Damage to bytes and to lines of text, of any format."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

ODD_BYTES = (
    *(b"\x00", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xe9", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"),
    *(b"\r", b"\r\n", b"\n\n", b"\t", b",", b";", b"|", b'"', b"'", b'""', b"\\", b"#", b"{", b"}", b"["),
    *(b"]",),
    *(b"\x1b[2J\x1b]0;x\x07", b"\x0c", b"\x1a", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xae"),
    *(b"\xf0\x9f\x99\x82",),
    *(b"NaN", b"Infinity", b"-1", b"1e999", b"null", b"true", b"99999999999999999999", b"\\ud800"),
    *(b"\\u0000",),
)
"""Bytes that parsers stumble over."""

ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp1252", "shift_jis", "cp037", "utf-7")


def flip(draw: Random, data: bytearray) -> None:
    """Flip one to eight bits."""
    for _ in range(draw.randint(1, 8)):
        if data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def overwrite(draw: Random, data: bytearray) -> None:
    """Replace a slice by random bytes, or by one byte."""
    start, end = _slice(draw, data)
    value = draw.choice([0, 255, 10, 32, None])
    data[start:end] = draw.randbytes(end - start) if value is None else bytes([value]) * (end - start)


def delete(draw: Random, data: bytearray) -> None:
    """Delete a slice."""
    start, end = _slice(draw, data)
    del data[start:end]


def repeat(draw: Random, data: bytearray) -> None:
    """Repeat a slice, a few times or many."""
    start, end = _slice(draw, data)
    data[end:end] = bytes(data[start:end]) * draw.choice([1, 2, 50])


def move(draw: Random, data: bytearray) -> None:
    """Move a slice to another place."""
    start, end = _slice(draw, data)
    piece = bytes(data[start:end])
    del data[start:end]
    at = draw.randint(0, len(data))
    data[at:at] = piece


def truncate(draw: Random, data: bytearray) -> None:
    """Cut the end off."""
    del data[draw.randint(0, len(data)) :]


def insert(draw: Random, data: bytearray) -> None:
    """Insert bytes that parsers stumble over."""
    for _ in range(draw.randint(1, 3)):
        at = draw.randint(0, len(data))
        data[at:at] = draw.choice(ODD_BYTES)


def extend(draw: Random, data: bytearray) -> None:
    """Append bytes."""
    data += draw.choice([b"\x00" * 64, b"\n" * 100, draw.randbytes(100), b"{}", bytes(data[:100])])


BYTES: tuple[Callable[[Random, bytearray], None], ...] = (
    *(flip, overwrite, delete, repeat, move, truncate, insert, insert, extend),
)


def damaged_bytes(draw: Random, data: bytes, times: int = 3) -> bytes:
    """Return the bytes with one to `times` kinds of damage."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, times)):
        draw.choice(BYTES)(draw, changed)
    return bytes(changed)


def damaged_lines(draw: Random, text: str) -> str:
    """Return the text with one line dropped, doubled, moved, indented, cut, joined or very long."""
    lines = text.split("\n")
    at = draw.randrange(len(lines))
    match draw.randrange(8):
        case 0:
            del lines[at]
        case 1:
            lines[at:at] = [lines[at]] * draw.choice([1, 3, 200])
        case 2:
            lines.insert(draw.randint(0, len(lines)), lines.pop(at))
        case 3:
            lines[at] = draw.choice([" ", "  ", "\t", "- ", "# "]) + lines[at]
        case 4:
            lines[at] = lines[at][: draw.randint(0, len(lines[at]))]
        case 5:
            lines[at : at + 2] = [" ".join(lines[at : at + 2])]
        case 6:
            lines[at] += draw.choice(["x", ",", "\t", '"', "\u2028", "é", "\u202e"]) * draw.choice(
                [1, 10, 20_000]
            )
        case 7:
            lines[at] = ""
    return "\n".join(lines)


def reencoded(draw: Random, data: bytes) -> bytes:
    """Return a text of UTF-8 in another encoding, with other line ends, or both."""
    text = data.decode("utf-8", "replace")
    if draw.random() < 0.4:
        text = text.replace("\n", draw.choice(["\r\n", "\r", "\n\r", "\u2028", "\x85", "\0"]))
    return (
        text.encode(draw.choice(ENCODINGS), "replace")
        if draw.random() < 0.8
        else text.encode("utf-8", "replace")
    )


def _slice(draw: Random, data: bytearray) -> tuple[int, int]:
    start = draw.randint(0, len(data))
    return start, min(len(data), start + draw.choice([1, 2, 4, 16, 64, 1000]))
