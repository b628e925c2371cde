"""Colors of attention shares: continuous, and white at the even share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.analysis.plots.attention_colors import AttentionColors, channels, color, ink, luminance

TOKENS = st.integers(1, 512)
SHARE = st.floats(0, 1)
LEVELS = np.linspace(-1, 1, 201)


@given(TOKENS, SHARE)
def test_an_even_attention_is_white_and_the_largest_share_darkest(tokens, largest):
    colors = AttentionColors.of(largest, tokens)
    assert color(float(colors.levels(1 / tokens))) == "#ffffff"
    assert colors.levels([colors.top, colors.floor, 0.0]) == pytest.approx([int(tokens > 1), -1, -1])


@given(TOKENS, SHARE, st.lists(SHARE, min_size=2))
def test_levels_grow_with_shares(tokens, largest, shares):
    levels = AttentionColors.of(largest, tokens).levels(sorted(shares)).tolist()
    assert levels == sorted(levels)
    assert min(levels) >= -1
    assert max(levels) <= 1


@given(TOKENS, st.lists(st.floats(0.97, 1.03), min_size=1))
def test_noise_around_the_even_share_has_no_border(tokens, factors):
    """The shades of an almost even attention cannot be told from white."""
    colors = AttentionColors.of(max(factors) / tokens, tokens)
    assert channels(colors.levels(np.array(factors) / tokens)).min() >= 235


@given(st.integers(2, 512), SHARE, st.floats(1e-4, 1))
def test_a_small_difference_of_shares_is_a_small_difference_of_color(tokens, largest, share):
    """No border anywhere: 1 % more of a share changes no channel by more than the eye can see."""
    colors = AttentionColors.of(largest, tokens)
    one, other = channels(colors.levels([share, 1.01 * share])).astype(int)
    assert np.abs(one - other).max() <= 6


def test_both_sides_get_darker_from_the_middle():
    lights = [luminance(color(level)) for level in LEVELS]
    middle = len(lights) // 2
    assert lights[: middle + 1] == sorted(lights[: middle + 1])
    assert lights[middle:] == sorted(lights[middle:], reverse=True)
    assert lights[middle] == pytest.approx(1.0)


@pytest.mark.parametrize("level", np.linspace(-1, 1, 41))
def test_text_is_readable_on_every_color(level):
    pair = sorted((luminance(color(level)), luminance(ink(level))))
    assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5  # what the web's rules ask of text
