"""Colors of attention shares: continuous, and white at the even share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.analysis.plots.attention_colors import LEVELS, AttentionColors, color, ink, luminance

TOKENS = st.integers(1, 512)
SHARE = st.floats(0, 1)


@given(TOKENS, SHARE)
def test_an_even_attention_is_white_and_the_largest_share_darkest(tokens, largest):
    colors = AttentionColors.of(largest, tokens)
    assert color(colors.level(1 / tokens)) == "#ffffff"
    assert colors.level(colors.top) == (LEVELS if tokens > 1 else 0)
    assert colors.level(0.0) == colors.level(colors.floor) == -LEVELS


@given(TOKENS, SHARE, st.lists(SHARE, min_size=2))
def test_levels_grow_with_shares(tokens, largest, shares):
    levels = [AttentionColors.of(largest, tokens).level(share) for share in sorted(shares)]
    assert levels == sorted(levels)


@given(TOKENS, st.floats(0.97, 1.03))
def test_noise_around_the_even_share_has_no_border(tokens, factor):
    """The two shades of an almost even attention cannot be told from white."""
    colors = AttentionColors.of(1.03 / tokens, tokens)
    assert abs(colors.level(factor / tokens)) <= 1
    channels = [int(color(level)[i : i + 2], 16) for level in (-1, 1) for i in (1, 3, 5)]
    assert min(channels) >= 240


def test_neighboring_colors_hardly_differ():
    def channels(level):
        return [int(color(level)[i : i + 2], 16) for i in (1, 3, 5)]

    for level in range(-LEVELS, LEVELS):
        assert max(abs(a - b) for a, b in zip(channels(level), channels(level + 1), strict=True)) <= 12


@pytest.mark.parametrize("level", range(-LEVELS, LEVELS + 1))
def test_text_is_readable_on_every_color(level):
    pair = sorted((luminance(color(level)), luminance(ink(level))))
    assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5  # what the web's rules ask of text
