import pytest

from weft.utils.files import new_folder, sweep, write_json


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "x"

    def fail():
        with new_folder(target) as work:
            (work / "half").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
    with new_folder(target) as work:
        (work / "one").write_text("1")
        assert not target.exists()
    assert (target / "one").read_text() == "1"
    with new_folder(target) as work:
        (work / "two").write_text("2")
    assert [p.name for p in target.iterdir()] == ["two"]
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_sweeping_leaves_what_is_whole(tmp_path):
    (tmp_path / ".step-1-abc").mkdir()
    (tmp_path / ".run.yaml.new").touch()
    write_json(tmp_path / "kept.json", {"a": 1})
    (tmp_path / ".gitignore").touch()
    sweep(tmp_path, ".step-*", ".run.yaml.new")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".gitignore", "kept.json"]
