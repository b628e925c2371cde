"""`weft show attention`, in this process."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
import torch

import weft
from tests.support.outline import Outline
from tests.support.tiny import scramble
from tests.support.tiny_run import assert_refused, save_encoder
from weft.analysis.attention import attention_of, methods_with_attention
from weft.cli import run

TASKS = (
    weft.Task("cat", labels=("no", "yes")),
    weft.Task("same", texts=("a", "b"), labels=("x", "y", "z")),
    weft.Task("count", "regress"),
)
PALS = {"use": "pals", "d_s": 12, "heads": 3}
TOP = {"use": "top_attention", "d_s": 12, "heads": 3, "depth": 2}
MODELS = {
    "pals": (PALS, TASKS),
    "one": (PALS, TASKS[:1]),
    "lora": ("lora", TASKS),
    "separate": ("separate", TASKS),
    "top": (TOP, TASKS),
    "both": ([PALS | {"layers": "top half"}, TOP], TASKS),
}
TEXT = "the old cat sees a bird"
TOKENS = ["[CLS]", *TEXT.split(), "[SEP]"]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """A folder of bundles, as runs hold them; `empty` is a folder without one."""
    folder = tmp_path_factory.mktemp("attention")
    encoder = save_encoder(folder / "encoder")
    for name, (method, tasks) in MODELS.items():
        scramble(weft.Model(encoder, tasks, method, max_length=24)).save(folder / name / "bundle")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """As in a pipe of 80 columns, whatever the terminal of the tests is."""
    for name in ("FORCE_COLOR", "NO_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def said(capsys, bundle, *arguments):
    capsys.readouterr()
    code = run(["show", "attention", str(bundle), *map(str, arguments)])
    return code, capsys.readouterr()


def test_json_is_the_attention_of_the_model(bundles, capsys):
    for place in (bundles / "pals", bundles / "pals" / "bundle"):
        code, told = said(capsys, place, "--task", "cat", "--text", TEXT, "--json")
        assert (code, told.err) == (0, "")
        found = json.loads(told.out)
        assert list(found) == ["task", "tokens", "layers"]
        assert (found["task"], found["tokens"]) == ("cat", TOKENS)
        expected = attention_of(weft.load(place), "cat", TEXT)
        for layer, (name, p) in zip(found["layers"], expected.layers, strict=True):
            assert (layer["name"], layer["heads"]) == (name, 3)
            torch.testing.assert_close(torch.tensor(layer["probabilities"]), p, atol=1e-6, rtol=0)
        digits = re.findall(r"0\.(\d+)[,\]]", told.out)
        assert max(map(len, digits)) == 6


def test_plain_output_draws_bars_under_the_tokens(bundles, capsys):
    code, told = said(capsys, bundles / "pals", "--task", "cat", "--text", TEXT)
    assert (code, told.err) == (0, "")
    assert "\x1b" not in told.out
    lines = told.out.splitlines()
    assert "each token receives from all tokens (mean)" in lines[0]
    assert lines[2] == "0:[CLS] 1:the 2:old 3:cat 4:sees 5:a 6:bird 7:[SEP]"
    shares = dict(attention_of(weft.load(bundles / "pals"), "cat", TEXT).layers)["1/ffn_delta"].mean(1)
    at = lines.index("layer 1 (1/ffn_delta)")
    assert lines[at + 1].split() == TOKENS
    for head in range(3):
        bars = lines[at + 2 + head]
        assert [m.span() for m in re.finditer(r"[▁-█]+", bars)] == [
            m.span() for m in re.finditer(r"\S+", lines[at + 1])
        ]
        heights = [bar[0] for bar in bars.split()[2:]]
        order = shares[head].argsort().tolist()
        assert [heights[i] for i in order] == sorted(heights)
        first, second, third = shares[head].argsort(descending=True)[:3].tolist()
        top = ", ".join(f"{i}:{TOKENS[i]} {100 * shares[head][i]:.1f}%" for i in (first, second, third))
        assert lines[at + 5 + head] == f"  head {head}  most: {top}"


def test_from_one_token(bundles, capsys):
    code, told = said(capsys, bundles / "pals", "--task", "cat", "--text", TEXT, "--from", 3, "--layers", 0)
    assert code == 0
    assert "each token receives from 3:cat" in told.out
    shares = attention_of(weft.load(bundles / "pals"), "cat", TEXT).layers[0].probabilities[1, 3]
    best = int(shares.argmax())
    assert f"head 1  most: {best}:{TOKENS[best]} {100 * float(shares.max()):.1f}%" in told.out


def test_lines_wrap_and_tokens_are_not_cut(bundles, capsys, monkeypatch):
    for width in (24, 40, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        code, told = said(capsys, bundles / "one", "--text", "there likes " * 6, "--layers", 0)
        assert code == 0
        blocks = told.out.partition("layer 0")[2].splitlines()[1:]
        drawn = [line for line in blocks if "most:" not in line]
        assert all(len(line) <= width for line in drawn)
        written = " ".join(line for line in drawn if "head" not in line).split()
        assert written == ["[CLS]", *["there", "likes"] * 6, "[SEP]"]


def test_colours_on_a_terminal_that_has_them(bundles, capsys, monkeypatch):
    call = ("--task", "cat", "--text", TEXT, "--layers", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    code, told = said(capsys, bundles / "pals", *call)
    assert code == 0
    # nearly even here: every token is almost white
    shades = re.findall(r"\x1b\[38;2;0;0;0;48;2;(\d+);(\d+);(\d+)m", told.out)
    assert len(shades) == 3 * len(TOKENS)
    assert min(int(channel) for shade in shades for channel in shade) > 215
    assert "white: the even share, 12.5%; blue: more" in told.out
    assert not set("▁▂▃▄▅▆▇█") & set(told.out)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", told.out)
    assert f"  head 2  {' '.join(TOKENS)}\n" in bare
    monkeypatch.setenv("NO_COLOR", "1")
    code, told = said(capsys, bundles / "pals", *call)
    assert "▄▄▄▄▄" in told.out
    assert "48;2" not in told.out


def test_bars_of_a_nearly_even_attention_are_equal():
    """Noise around the even share must not look like structure."""
    from weft.analysis.plots.attention_colors import AttentionColors
    from weft.cli.show.attention import BLOCKS, DIGITS, _bars

    colors = AttentionColors.of(0.27, 4)
    assert len(BLOCKS) == len(DIGITS)
    assert _bars(["a", "b", "c", "d"], [0.25, 0.24, 0.26, 0.27], colors, BLOCKS) == "▄ ▄ ▄ ▄"
    assert _bars(["a", "b", "c", "d"], [1.0, 0.0, 0.7, 0.1], colors, DIGITS) == "7 1 6 3"


def test_pairs_and_a_task_that_goes_without_saying(bundles, capsys):
    code, told = said(
        capsys, bundles / "pals", "--task", "same", "--text", "the cat", "--pair", "a dog", "--json"
    )
    assert code == 0
    assert json.loads(told.out)["tokens"] == ["[CLS]", "the", "cat", "[SEP]", "a", "dog", "[SEP]"]
    code, told = said(capsys, bundles / "one", "--text", TEXT, "--json")
    assert json.loads(told.out)["task"] == "cat"


def test_layers_and_those_on_top(bundles, capsys):
    def names(bundle, *more):
        code, told = said(capsys, bundles / bundle, "--task", "cat", "--text", TEXT, "--json", *more)
        assert code == 0
        return [layer["name"] for layer in json.loads(told.out)["layers"]]

    assert names("both") == ["1/ffn_delta", "top/0", "top/1"]
    assert names("both", "--layers", "0-1") == ["1/ffn_delta"]
    assert names("pals", "--layers", "top half") == ["1/ffn_delta"]
    assert names("pals", "--layers", "all") == ["0/ffn_delta", "1/ffn_delta"]
    assert names("top") == ["top/0", "top/1"]


def test_files(bundles, capsys, tmp_path):
    svg, html = tmp_path / "a.svg", tmp_path / "a [red].html"
    text = '<b>&"the cat</b> 日本 שלום'
    call = ("--task", "cat", "--text", text, "--svg", svg, "--html", html)
    code, told = said(capsys, bundles / "pals", *call)
    assert (code, told.err) == (0, "")
    assert told.out.endswith(f"written: {svg}\nwritten: {html}\n")
    ElementTree.parse(svg)
    page = Outline(html.read_text(encoding="utf-8"))
    assert text in "".join(shown for tag, shown in page.texts if tag not in ("script", "style"))
    svg.unlink()
    code, told = said(capsys, bundles / "pals", *call, "--json")
    assert code == 0
    assert json.loads(told.out)["task"] == "cat"  # nothing else on standard output
    assert f"written: {svg}" in told.err
    assert svg.is_file()


def test_a_cut_text_is_told(bundles, capsys):
    code, told = said(capsys, bundles / "one", "--text", "cat " * 40, "--json")
    assert code == 0
    assert told.err == "note: only 24 of the 42 tokens are used (the model's max_length)\n"
    assert len(json.loads(told.out)["tokens"]) == 24


def test_an_encoder_that_moved_can_be_pointed_to(bundles, capsys, tmp_path):
    import shutil

    shutil.copytree(bundles / "encoder", tmp_path / "moved")
    code, _ = said(capsys, bundles / "one", "--text", TEXT, "--encoder", tmp_path / "moved")
    assert code == 0


TEXTS = ["--text", TEXT]
CALLS = {
    "unknown task": (["pals", "--task", "cta", *TEXTS], ["task 'cta'", "did you mean 'cat'"]),
    "no task": (["pals", *TEXTS], ["3 tasks, cat, same, count", "--task"]),
    "no text": (["pals", "--task", "cat"], ["--text"]),
    "empty text": (["one", "--text", " "], ["--text is ' '", "not empty"]),
    "empty pair": (["pals", "--task", "same", *TEXTS, "--pair", ""], ["--pair is ''", "not empty"]),
    "half a character": (["one", "--text", "a \ud83d"], ["--text", "valid Unicode"]),
    "no pair": (["pals", "--task", "same", *TEXTS], ["'same' takes two texts, a and b", "--pair"]),
    "a pair too many": (["pals", "--task", "cat", *TEXTS, "--pair", "x"], ["takes one text", "--pair"]),
    "no attention": (["lora", "--task", "cat", *TEXTS], ["method, lora,", *methods_with_attention()]),
    "separate": (["separate", "--task", "cat", *TEXTS], ["method, separate,", "pals"]),
    "layers outside": (["one", *TEXTS, "--layers", "5"], ["'5' is outside the encoder", "0-1"]),
    "no layers": (["one", *TEXTS, "--layers", "first"], ["'first' cannot be read"]),
    "layers without": (
        ["both", "--task", "cat", *TEXTS, "--layers", "0"],
        ["layers 0 have no", "1/ffn_delta"],
    ),
    "top alone": (["top", "--task", "cat", *TEXTS, "--layers", "0"], ["layers 0 have no attention", "top/0"]),
    "token outside": (["one", *TEXTS, "--from", "8"], ["token 8 is outside", "0 ([CLS]) to 7 ([SEP])"]),
    "token below": (["one", *TEXTS, "--from", "-1"], ["token -1 is outside"]),
    "no token": (["one", *TEXTS, "--from", "cat"], ["--from 'cat'", "number of a token", "mean"]),
    "no bundle": (["empty", *TEXTS], ["holds no bundle"]),
    "nowhere": (["nowhere", *TEXTS], ["nowhere holds no bundle"]),
    "no folder for svg": (["one", *TEXTS, "--svg", "no/a.svg"], ["--svg no/a.svg", "no folder no"]),
    "no folder for html": (["one", *TEXTS, "--html", "no/a.html"], ["--html no/a.html", "no folder no"]),
    "a folder": (["one", *TEXTS, "--svg", "."], ["this is a folder"]),
    "no encoder": (["one", *TEXTS, "--encoder", "."], ["has no config.json"]),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_calls(case, bundles, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (bundle, *arguments), messages = CALLS[case]
    assert_refused(*said(capsys, bundles / bundle, *arguments), messages)
    assert list(tmp_path.iterdir()) == []
