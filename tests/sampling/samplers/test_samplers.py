import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.every_sampler import EVERY, spec
from tests.support.golden import golden
from weft.errors import WeftError
from weft.sampling import SAMPLERS, RoundRobin, Sampler, Uniform, build_sampler
from weft.utils.counter_rng import draw_key

sizes_of_tasks = st.lists(st.integers(1, 10**6), min_size=1, max_size=64)
SOME_SIZES = [[1], [1_000_000], [1, 1], [1, 1_000_000], [1] * 64, [*[1] * 32, *[1_000_000] * 32]]


def segments_of(said, sizes, steps=100):
    return build_sampler(said).segments(np.array(sizes), steps, [str(i) for i in range(len(sizes))])


def share(said, *sizes):
    (segment,) = segments_of(said, sizes)
    return segment.choice.share.tolist()


def check_segments(label, sizes, steps):
    segments = segments_of(spec(label, len(sizes)), sizes, steps)
    assert segments[0].first == 0
    assert segments[-1].stop == steps
    assert all(a.stop == b.first for a, b in pairwise(segments))
    for segment in segments:
        p = segment.choice.share
        assert segment.first < segment.stop
        assert p.shape == (len(sizes),)
        assert (p > 0).all() or (label == "counterfactual" and (p[:-1] > 0).all())
        assert p.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("label", EVERY)
@given(sizes=sizes_of_tasks, steps=st.integers(1, 3000))
def test_segments_follow_each_other_and_shares_sum_to_one(label, sizes, steps):
    check_segments(label, sizes, steps)


@pytest.mark.parametrize("label", EVERY)
@pytest.mark.parametrize("sizes", SOME_SIZES, ids=lambda sizes: f"{len(sizes)} tasks to {max(sizes)}")
def test_one_task_tasks_of_one_and_one_to_a_million(label, sizes):
    check_segments(label, sizes, 1)
    check_segments(label, sizes, 1000)
    for segment in segments_of(spec(label, len(sizes)), sizes, 1000):
        tasks = segment.choice.tasks(draw_key(1), 0, 500)
        assert set(tasks) <= set(np.flatnonzero(segment.choice.share))


def test_uniform():
    assert share("uniform", 1, 1_000_000, 50, 3) == [0.25] * 4


def test_proportional():
    assert share("proportional", 1, 3, 4) == [0.125, 0.375, 0.5]
    assert share("proportional", 1, 999_999) == pytest.approx([1e-6, 1 - 1e-6])


def test_power():
    assert share({"use": "power", "alpha": 2}, 1, 2, 3) == pytest.approx([1 / 14, 4 / 14, 9 / 14])
    assert share({"use": "power", "alpha": 0}, 1, 10**6, 33) == pytest.approx([1 / 3] * 3)
    assert share("power", 1, 4) == share({"use": "power", "alpha": 0.5}, 1, 4)


def test_square_root():
    assert share("square_root", 1, 4, 9, 1_000_000) == pytest.approx(np.array([1, 2, 3, 1000]) / 1006)


@pytest.mark.parametrize("alpha", [2, 60, 1000, 1e300])
def test_no_power_is_too_large(alpha):
    p = np.array(share({"use": "power", "alpha": alpha}, 1, 1_000_000, 999_999))
    assert p.sum() == pytest.approx(1)
    assert (p > 0).all()  # a task may be unlikely, but is never left out
    assert p[1] >= p[2] >= p[0]


def test_temperature():
    sizes = [1, 1000, 1_000_000]
    assert share({"use": "temperature", "temperature": 3}, *sizes) == pytest.approx(
        np.array([1, 10, 100]) / 111
    )
    capped = {"use": "temperature", "temperature": 3, "cap": 1000}
    assert share(capped, *sizes) == pytest.approx(np.array([1, 10, 10]) / 21)
    assert share("temperature", 1, 2**10) == pytest.approx([1 / 3, 2 / 3])


@given(st.integers(1, 500), st.integers(1, 60), st.integers(0, 100))
def test_annealed_follows_its_equation(steps, epochs, drop):
    said = {"use": "annealed", "epochs": epochs, "drop": drop / 100}
    for segment in segments_of(said, [1, 1000], steps):
        for step in range(segment.first, segment.stop):
            e = epochs * step // steps
            alpha = 1 - drop / 100 * e / (epochs - 1) if epochs > 1 else 1.0
            assert segment.choice.share[0] == pytest.approx(1 / (1 + 1000**alpha), rel=1e-9)


@given(st.integers(1, 500), st.integers(1, 600))
def test_annealed_by_the_steps_of_an_epoch(steps, epoch_steps):
    said = {"use": "annealed", "epoch_steps": epoch_steps}
    epochs = -(-steps // epoch_steps)
    segments = segments_of(said, [1, 1000], steps)
    assert len(segments) == epochs
    for e, segment in enumerate(segments):
        assert segment.first == e * epoch_steps
        alpha = 1 - 0.8 * e / (epochs - 1) if epochs > 1 else 1.0
        assert segment.choice.share[0] == pytest.approx(1 / (1 + 1000**alpha), rel=1e-9)


def test_the_numbers_of_pals():
    said = json.loads((golden("bert_n_pals") / "sampling.json").read_text())
    sizes = said["hardcoded_sizes"]
    assert share("proportional", *sizes) == pytest.approx(said["prop"], abs=1e-12)
    assert share("square_root", *sizes) == pytest.approx(said["sqrt"], abs=1e-12)
    assert len(said["anneal"]) == 25
    for settings in ({}, {"epoch_steps": 2400}):
        segments = segments_of({"use": "annealed", **settings}, sizes, 60_000)
        assert [segment.first for segment in segments] == [2400 * e for e in range(25)]
        for segment, epoch in zip(segments, said["anneal"], strict=True):
            assert segment.choice.share == pytest.approx(epoch["probs"], abs=1e-12)
            power = {"use": "power", "alpha": epoch["alpha"]}
            assert share(power, *sizes) == pytest.approx(epoch["probs"], abs=1e-12)


@pytest.mark.parametrize("temperature", [1, 2, 5, 10])
def test_the_numbers_of_hyperformer(temperature):
    said = json.loads((golden("extra") / "temperature_sampling.json").read_text())
    expected = said["distribution"][f"T{temperature}"]
    found = share({"use": "temperature", "temperature": temperature}, *said["sizes"])
    assert found == pytest.approx(expected, abs=1e-12)


def test_round_robin():
    (segment,) = RoundRobin().segments(np.array([5, 1_000_000, 1]), 100, ["a", "b", "c"])
    assert segment.choice.tasks(draw_key(1), 4, 11).tolist() == [1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("label", EVERY)
def test_a_sampler_is_built_from_what_a_run_file_says(label):
    said = spec(label, 3)
    sampler = build_sampler(said)
    assert sampler.name == (said["use"] if isinstance(said, dict) else said)
    assert sampler == build_sampler(sampler.settings())
    assert build_sampler(sampler) is sampler
    assert json.loads(json.dumps(sampler.settings())) == sampler.settings()


def test_samplers_of_earlier_runs_keep_their_settings():
    """The fingerprint of a run is made of them: a setting more, and it could not be resumed."""
    for name in ("proportional", "round_robin", "stretched", "uniform"):
        assert build_sampler(name).settings() == {"use": name}


def test_what_a_sampler_does_besides():
    assert {name for name in SAMPLERS if SAMPLERS[name].chooses} == {"mt_uncertainty"}
    again = [label for label in EVERY if build_sampler(spec(label, 3)).replacement]
    assert again == ["temperature with replacement"]


def test_classes_are_found_by_name():
    import weft.sampling

    assert isinstance(build_sampler("uniform"), Uniform)
    assert issubclass(weft.sampling.Proportional, Sampler)
    assert weft.sampling.MtUncertainty is SAMPLERS["mt_uncertainty"]
    with pytest.raises(AttributeError):
        _ = weft.sampling.Nothing


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("unifrom", "sampler 'unifrom' does not exist; did you mean 'uniform'?"),
        ({"use": "roundrobin"}, "did you mean 'round_robin'?"),
        ({"name": "uniform"}, "lacks the key 'use'"),
        ({"use": "uniform", "alpha": 2}, "alpha: no such setting; there are none"),
        ({"use": "power", "alpha": -1}, "alpha: expected greater than or equal to 0; found -1"),
        ({"use": "power", "alpha": float("inf")}, "alpha: expected a finite number; found inf"),
        ({"use": "annealed", "epoch": 3}, "epoch: no such setting; did you mean 'epochs'?"),
        ({"use": "annealed", "drop": 2}, "drop: expected less than or equal to 1; found 2"),
        (
            {"use": "temperature", "temperature": 0},
            "temperature: expected greater than or equal to 0.001; found 0",
        ),
        ({"use": "mt_uncertainty", "rule": "thesis"}, "rule: expected 'code' or 'paper'; found 'thesis'"),
        (3, "expected a name or settings with 'use'; found 3"),
    ],
)
def test_a_wrong_spec_is_explained(said, text):
    with pytest.raises(WeftError) as error:
        build_sampler(said)
    assert text in str(error.value)


def test_nothing_is_loaded_to_check_settings_and_no_torch_to_plan():
    code = """
import sys
from weft.sampling import SAMPLERS
[SAMPLERS[name] for name in SAMPLERS]
assert not {"numpy", "torch"} & set(sys.modules)
import weft.sampling.plan.plan
assert "torch" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0
