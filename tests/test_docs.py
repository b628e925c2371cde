"""The documentation names what there is."""

from tests.support.paths import ROOT
from weft.growing.settings import GrowSettings
from weft.methods import METHODS
from weft.model.head_settings import HeadSettings
from weft.training.settings import Training

DOCS = ROOT


def test_every_key_of_a_run_file_is_explained():
    text = (DOCS / "docs" / "run-file.md").read_text(encoding="utf-8")
    for key in (*Training.model_fields, *HeadSettings.model_fields):
        assert f"\n| {key} |" in text, key


def test_every_key_of_a_task_file_is_explained():
    text = (DOCS / "docs" / "growing.md").read_text(encoding="utf-8")
    for key in GrowSettings.model_fields:
        assert f"\n| {key} |" in text, key


def test_every_setting_describes_itself():
    for settings in (Training, HeadSettings, GrowSettings, *(METHODS[name] for name in METHODS)):
        for key, field in settings.model_fields.items():
            assert field.description, f"{settings.__name__}.{key}"


def test_the_readme_names_every_method():
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    for name in METHODS:
        assert f"`{name}`" in text
