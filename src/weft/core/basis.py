"""The round number of parameters that a paper assumes for its encoder, such as 110M for BERT-base.

No torch is imported.
"""

from __future__ import annotations

from decimal import Decimal

from weft.errors import WeftError

BERT_IN_PAPERS = 110_000_000
"""The size of BERT-base in MORRIS and multitask LoRA; it really has 109,482,240 parameters."""

NEAR = 0.02
LARGEST = Decimal(10) ** 15


def parse_basis(text: str) -> int:
    """Parse `110M`, `110_000_000` or `1.1e8`; anything else is an error."""
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
    """Return the encoder size that papers use in their arithmetic.

    Args:
        encoder: the encoder's real number of parameters.
        asked: a number to use in any case.

    Returns:
        `asked` if it is not None, the papers' number if the encoder has the size of BERT-base within 2 %,
        else None.
    """
    if asked is not None:
        return asked
    return BERT_IN_PAPERS if abs(encoder / BERT_IN_PAPERS - 1) < NEAR else None
