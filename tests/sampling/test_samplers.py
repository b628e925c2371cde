import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.sampling import SAMPLERS, RoundRobin, Sampler, Uniform, build_sampler
from weft.sampling.draws import draw_key

sizes_of_tasks = st.lists(st.integers(1, 10**6), min_size=1, max_size=64)


def share(name, *sizes):
    (segment,) = build_sampler(name).segments(np.array(sizes), 100)
    return segment.choice.share.tolist()


@pytest.mark.parametrize("name", SAMPLERS)
@given(sizes=sizes_of_tasks, steps=st.integers(1, 10**6))
def test_segments_follow_each_other_and_shares_sum_to_one(name, sizes, steps):
    segments = build_sampler(name).segments(np.array(sizes), steps)
    assert segments[0].first == 0
    assert segments[-1].stop == steps
    assert all(a.stop == b.first for a, b in pairwise(segments))
    for segment in segments:
        assert segment.first < segment.stop
        assert segment.choice.share.shape == (len(sizes),)
        assert (segment.choice.share > 0).all()
        assert segment.choice.share.sum() == pytest.approx(1)


def test_uniform():
    assert share("uniform", 1, 1_000_000, 50, 3) == [0.25] * 4


def test_proportional():
    assert share("proportional", 1, 3, 4) == [0.125, 0.375, 0.5]
    assert share("proportional", 1, 999_999) == pytest.approx([1e-6, 1 - 1e-6])


def test_round_robin():
    (segment,) = RoundRobin().segments(np.array([5, 1_000_000, 1]), 100)
    assert segment.choice.tasks(draw_key(1), 4, 11).tolist() == [1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_is_built_from_what_a_run_file_says(name):
    sampler = build_sampler(name)
    assert sampler.name == name
    assert sampler == build_sampler({"use": name}) == build_sampler(sampler.settings())
    assert build_sampler(sampler) is sampler


def test_classes_are_found_by_name():
    import weft.sampling

    assert isinstance(build_sampler("uniform"), Uniform)
    assert issubclass(weft.sampling.Proportional, Sampler)
    with pytest.raises(AttributeError):
        _ = weft.sampling.Nothing


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("unifrom", "sampler 'unifrom' does not exist; did you mean 'uniform'?"),
        ({"use": "roundrobin"}, "did you mean 'round_robin'?"),
        ({"name": "uniform"}, "lacks the key 'use'"),
        ({"use": "uniform", "alpha": 2}, "alpha: no such setting; it has none"),
        (3, "expected a name or settings with 'use'; found 3"),
    ],
)
def test_a_wrong_spec_is_explained(spec, text):
    with pytest.raises(WeftError) as error:
        build_sampler(spec)
    assert text in str(error.value)


def test_no_torch_is_imported():
    code = "import sys, weft.sampling.plan; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
