"""A round number of parameters that a paper takes its encoder for, such as 110M for BERT-base. No torch."""

from __future__ import annotations

from decimal import Decimal

from weft.errors import WeftError

BERT_IN_PAPERS = 110_000_000
"""What MORRIS and multitask LoRA take BERT-base for; it has 109,482,240."""

NEAR = 0.02
LARGEST = Decimal(10) ** 15


def parse_basis(text: str) -> int:
    """The number that `110M`, `110_000_000` or `1.1e8` means; anything else is an error."""
    digits, million = (text[:-1], 1_000_000) if text.endswith("M") else (text, 1)
    try:
        number = Decimal(digits) * million
    except ArithmeticError:
        number = Decimal("NaN")
    if not (number.is_finite() and 1 <= number <= LARGEST and number == number.to_integral_value()):
        raise WeftError(
            f"basis {text!r}: expected a whole number of parameters, such as 110M, 110_000_000 or 1.1e8"
        )
    return int(number)


def basis_for(encoder: int, asked: int | None = None) -> int | None:
    """What a paper's arithmetic takes an encoder of so many parameters for.

    Args:
        encoder: how many it really has.
        asked: a number that is to be used in any case.

    Returns:
        None where nothing was asked for and the encoder is no BERT-base, within 2 %.
    """
    if asked is not None:
        return asked
    return BERT_IN_PAPERS if abs(encoder / BERT_IN_PAPERS - 1) < NEAR else None
