"""conll files: sentences, tags and lines."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from weft.data import read_rows
from weft.data.readers.source import Source

word = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=6)
sentence = st.lists(st.tuples(word, st.sampled_from(["O", "B-x", "I-x"])), min_size=1, max_size=5)


@given(
    st.lists(sentence, min_size=1, max_size=5),
    st.sampled_from(["\t", " ", "   "]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", "\t", "  "]),
    st.integers(1, 3),
    st.booleans(),
)
def test_what_is_written_is_read(sentences, between, end, blank, gap, ended):
    lines, first = ["-DOCSTART-" + between + "O"], []
    for own in sentences:
        lines += [blank] * gap
        first.append(len(lines) + 1)
        lines += [f"{w}{between}{tag}" for w, tag in own]
    if any(line.startswith("\ufeff") for line in lines) or any(
        w.startswith("-DOCSTART-") for s in sentences for w, _ in s
    ):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.conll"
        path.write_bytes((end.join(lines) + end * ended).encode())
        table = read_rows(path, ["tokens", "ner_tags"])
        assert table.columns["tokens"] == [[w for w, _ in own] for own in sentences]
        assert table.columns["ner_tags"] == [[tag for _, tag in own] for own in sentences]
        assert (table.row.tolist(), table.unit) == (first, "line")


def test_the_places_of_word_and_tag(tmp_path):
    path = tmp_path / "eng.testa"
    path.write_text("1 cat NN B-x\n2 sat VB O\n\n1 it PR O\n")
    table = read_rows(
        Source(path, "conll", {"words": "tokens", "pos": "ner_tags"}, {"word": 1, "tag": 2}), ["words", "pos"]
    )
    assert table.columns == {"words": [["cat", "sat"], ["it"]], "pos": [["NN", "VB"], ["PR"]]}


def test_words_without_tags(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("cat\nsat\n\nit\n")
    assert read_rows(path, ["tokens"], ["ner_tags"]).columns == {"tokens": [["cat", "sat"], ["it"]]}
