"""Where the cache is: the argument, else a variable, else the home folder."""

from pathlib import Path

from weft.utils.cache_folder import cache_folder


def test_the_argument_comes_before_the_variable_and_the_variable_before_the_home_folder(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WEFT_CACHE", "~/variable")
    assert cache_folder(tmp_path / "argument") == tmp_path / "argument"
    assert cache_folder() == tmp_path / "variable"
    monkeypatch.delenv("WEFT_CACHE")
    assert cache_folder() == tmp_path / ".cache" / "weft"
    assert cache_folder("x") == Path("x")
