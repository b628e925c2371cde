"""Who is blamed for a mistake: a line of the file, or an override."""

import pytest
import yaml

from weft.config import load_run
from weft.errors import WeftError

RUN = {
    "encoder": "minilm",
    "method": "lora",
    "tasks": {"a": {"texts": ["text"], "labels": ["x", "y"], "train": "a.csv", "validation": "a.csv"}},
    "train": {"steps": 10, "sampler": "power"},
}


@pytest.fixture
def file(tmp_path):
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(RUN))
    return tmp_path / "run.yaml"


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ("encoder=/no/such", "encoder"),
        ("encoder=3", "encoder"),
        ("method.rank=many", "method.rank"),
        ("method.use=lorra", "method.use"),
        ("tasks.a.kind=clasify", "tasks.a.kind"),
        ("tasks.a.labels=[x]", "tasks.a.labels"),
        ("tasks.a.fraction=2", "tasks.a.fraction"),
        ("tasks.a.metrics=[f2]", "tasks.a.metrics"),
        ("tasks.a.stride=1", "tasks.a.stride"),
        ("tasks={suite: swatch, only: [sentimentt]}", "tasks"),
        ("train.sampler.use=powr", "train.sampler.use"),
        ("train.sampler.alpha=x", "train.sampler.alpha"),
        ("train.stop.patience=0", "train.stop.patience"),
        ("train.lr_of={encoder: -1}", "train.lr_of"),
        ("train.conflict=pcgradd", "train.conflict"),
        ("train.task_weights={b: 1}", "train.task_weights"),
        ("train.mixed=maybe", "train.mixed"),
        ("train=5", "train"),
        ("train.steps.x=5", "train.steps.x"),
        ("heads.pool=x", "heads.pool"),
        ("kernels=x", "kernels"),
        ("start=3", "start"),
        ("nosuch.key=1", "nosuch.key"),
    ],
)
def test_a_wrong_value_of_any_kind_is_blamed_on_the_override(file, override, place):
    with pytest.raises(WeftError) as wrong:
        load_run(file, [override])
    mistakes = str(wrong.value).splitlines()[1:]
    assert mistakes[0].startswith(f"  command line, {place}: ")
    assert not any(line.startswith("  line ") for line in mistakes)


def test_a_mistake_of_the_file_in_the_same_section_keeps_its_line(file):
    wrong_file = {**RUN, "tasks": {**RUN["tasks"], "b": {**RUN["tasks"]["a"], "labels": ["x"]}}}
    file.write_text(yaml.safe_dump(wrong_file))
    with pytest.raises(WeftError) as wrong:
        load_run(file, ["tasks.a.kind=clasify"])
    listed = str(wrong.value)
    assert "command line, tasks.a.kind" in listed
    assert "line 12, tasks.b: task 'b': classify needs two labels" in listed


def test_a_key_that_is_set_twice_is_the_files_mistake(file):
    file.write_text(file.read_text() + "kernels: auto\nkernels: auto\n")
    with pytest.raises(WeftError, match=r"line \d+, kernels: the key is set twice"):
        load_run(file, ["train.steps=20"])


def test_a_setting_of_a_sampler_that_the_file_names_can_be_overridden(file):
    assert load_run(file, ["train.sampler.alpha=0.25"]).training.sampler == {"use": "power", "alpha": 0.25}
