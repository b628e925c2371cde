"""Wrong files of kinds that are more than a text and a label, and of official formats; and odd right ones."""

from __future__ import annotations

import gzip
import json
from typing import Any

from tests.support.malformed import CLASSIFY, LINE_3, OF_ANY_KIND, TEXT, Case, lines, wrong

SPAN = {"kind": "span", "texts": ["question", "context"], "label": "answers"}
TAG = {"kind": "tag", "texts": ["tokens"], "label": "ner_tags", "labels": ["O", "B-x", "I-x"]}
CHOOSE = {"kind": "choose", "texts": ["text"], "choices": ["options"]}
COPA = {"kind": "choose", "texts": ["{text} why?"], "choices": ["one", "two"]}
RANK = {"kind": "rank", "texts": ["text"], "choices": ["options"]}
WORDS = {
    "kind": "marked",
    "texts": ["text"],
    "labels": ["no", "yes"],
    "marks": [{"text": 0, "word": "w1", "phrase": "p1"}, {"text": 0, "word": "w2", "phrase": "p2"}],
}
PLACES = {
    "kind": "marked",
    "texts": ["a", "b"],
    "labels": ["no", "yes"],
    "marks": [{"text": 0, "start": "s1", "end": "e1"}, {"text": 1, "start": "s2", "end": "e2"}],
}
MULTI = {"kind": "multilabel", "labels": ["red", "old"]}
RECORD = {"kind": "choose", "texts": ["passage", "query"], "choices": ["entities"]}
MULTIRC = {
    "labels": ["False", "True"],
    "texts": ["paragraph", "{question} {answer}"],
    "group": ["idx_question"],
}


def answer(text: Any = "cat", start: Any = 4, **more: Any) -> dict[str, Any]:
    answers = {"text": [text], "answer_start": [start]}
    return {"question": "Who?", "context": "The cat sat.", "answers": answers, **more}


def squad(*qas: Any, context: Any = "The cat sat.") -> bytes:
    return json.dumps(
        {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(qas)}]}]}
    ).encode()


def asked(**more: Any) -> dict[str, Any]:
    return {"id": "1", "question": "Who?", "answers": [{"text": "cat", "answer_start": 4}], **more}


def mrqa(*entries: Any, header: bool = True) -> bytes:
    first = [{"header": {"dataset": "NewsQA", "split": "train"}}] if header else []
    return gzip.compress(lines(*first, *entries))


def context(**more: Any) -> dict[str, Any]:
    qa = {
        "qid": "1",
        "question": "Who?",
        "detected_answers": [{"text": "cat", "char_spans": [[4, 6]]}],
        **more,
    }
    return {"context": "The cat sat.", "qas": [qa]}


def passage(entity: Any = None, **more: Any) -> dict[str, Any]:
    entities = [{"start": 0, "end": 2}, entity or {"start": 8, "end": 10}]
    qa = {"query": "@placeholder left", "idx": 0, "answers": [{"text": "Ann", "start": 0, "end": 2}], **more}
    return {"passage": {"text": "Ann met Bob.", "entities": entities}, "qas": [qa], "idx": 0}


def paragraph(**more: Any) -> dict[str, Any]:
    answers = [{"text": "a", "idx": 0, "label": 0, **more}, {"text": "b", "idx": 1, "label": 1}]
    return {
        "idx": 0,
        "passage": {"text": "p", "questions": [{"question": "q", "idx": 0, "answers": answers}]},
    }


MARKS = {"text": "The old cat", "label": "no", "w1": 1, "p1": "old", "w2": 2, "p2": "cat"}
CHARACTERS = {"a": "The old cat", "b": "A dog", "label": "no", "s1": 4, "e1": 7, "s2": 2, "e2": 5}

OF_KINDS: dict[str, Case] = {
    "damaged conll": wrong(
        TAG, "a.conll", "éé\tO\n\n".encode() + b"\xe9\tO\n", LINE_3, "0xe9", "expected UTF-8"
    ),
    "latin-1 in json": wrong(SPAN, "a.json", b'{"data":\n"\xe9"}', "line 2", "0xe9", "expected UTF-8"),
    "mrqa gzip cut short": wrong(
        SPAN, "a.jsonl.gz", mrqa(context())[:-12], "not complete gzip", format="mrqa"
    ),
    "labels that are no list": wrong(
        MULTI, "a.jsonl", lines({"text": "a", "label": 1}), "line 1, column 'label'", "a list of labels"
    ),
    "unknown one of many": wrong(
        MULTI, "a.jsonl", lines({"text": "a", "label": ["new"]}), "line 1, column 'label'", "red, old"
    ),
    # span
    "answers that are no object": wrong(
        SPAN, "a.jsonl", lines(answer(), answer(answers=["cat"])), "line 2, column 'answers'", "answer_start"
    ),
    "no answers": wrong(
        SPAN,
        "a.jsonl",
        lines(answer(answers={"text": [], "answer_start": []})),
        "line 1, column 'answers'",
        "one answer or more",
    ),
    "answer outside the text": wrong(
        SPAN,
        "a.jsonl",
        lines(answer(start=40)),
        "line 1, column 'answers'",
        "inside the context of 12 characters",
    ),
    "answer elsewhere": wrong(
        SPAN, "a.jsonl", lines(answer(start=5)), "line 1, column 'answers'", "the context has 'at '"
    ),
    "start that is no number": wrong(
        SPAN, "a.jsonl", lines(answer(start="x")), "line 1, column 'answers'", "answer_start"
    ),
    "squad: not JSON": wrong(SPAN, "a.json", squad(asked())[:-2], "line 1", "not JSON", "expected SQuAD's"),
    "squad: no data": wrong(SPAN, "a.json", b'{"rows": []}', "found {'rows': []}; expected SQuAD's", "jsonl"),
    "squad: no questions": wrong(SPAN, "a.json", squad(), "the file has no questions"),
    "squad: answers not a list": wrong(
        SPAN,
        "a.json",
        squad(asked(), asked(answers="cat")),
        "question 2, column 'data[0].paragraphs[0].qas[1].answers'",
        "a list",
    ),
    "squad: no start": wrong(
        SPAN,
        "a.json",
        squad(asked(answers=[{"text": "cat"}])),
        "question 1",
        "qas[0].answers[0].answer_start",
        "there is no such key",
    ),
    "squad: context missing": wrong(
        SPAN, "a.json", squad(asked(), context=None), "column 'data[0].paragraphs[0].context'", "a text"
    ),
    "squad: impossible": wrong(
        SPAN,
        "a.json",
        squad(asked(is_impossible=True, answers=[])),
        "question 1",
        "questions without an answer are not supported",
        "drop: [null]",
    ),
    "mrqa: no header": wrong(
        SPAN,
        "a.jsonl.gz",
        mrqa(context(), header=False),
        "line 1, column 'header'",
        "MRQA's header",
        format="mrqa",
    ),
    "mrqa: header alone": wrong(SPAN, "a.jsonl.gz", mrqa(), "the file has no questions", format="mrqa"),
    "mrqa: span outside": wrong(
        SPAN,
        *("a.jsonl.gz", mrqa(context(detected_answers=[{"text": "cat", "char_spans": [[4, 99]]}]))),
        *(
            "line 2, column 'qas[0].detected_answers[0].char_spans'",
            "found [4, 99]",
            "the context, which has 12",
        ),
        format="mrqa",
    ),
    "mrqa: no qid": wrong(
        SPAN,
        "a.jsonl.gz",
        mrqa(context(qid=7)),
        "line 2, column 'qas[0].qid'",
        "found 7; expected a text",
        format="mrqa",
    ),
    # tag
    "conll: missing tag": wrong(
        TAG, "a.conll", "cat\tO\ndog\n", "line 2, column 'ner_tags'", "found 1 value", "expected 2"
    ),
    "conll: ragged": wrong(
        TAG, "a.conll", "cat O\n\ndog B-x x\n", "line 3, column 'tokens'", "found 3 values", "expected 2"
    ),
    "conll: no tags at all": wrong(
        TAG, "a.conll", "cat\ndog\n", "line 1, column 'ner_tags'", "its lines have 1 value"
    ),
    "conll: empty word": wrong(
        TAG, "a.conll", "cat\tO\n\tO\n", "line 2, column 'tokens'", "expected a word and its tag"
    ),
    "conll: unknown tag": wrong(
        TAG, "a.conll", "cat\tO\n\ndog\tB-y\n", "line 3, column 'ner_tags'", "one of O, B-x, I-x"
    ),
    "conll: blank": wrong(TAG, "a.conll", "\n-DOCSTART- O\n\n", "the file is empty"),
    "tags of another number": wrong(
        TAG,
        "a.jsonl",
        lines({"tokens": ["a", "b"], "ner_tags": ["O"]}),
        "line 1, column 'ner_tags'",
        "2 tags, one per word",
    ),
    "words that are no list": wrong(
        TAG, "a.jsonl", lines({"tokens": [], "ner_tags": []}), "line 1, column 'tokens'", "a list of words"
    ),
    # choose and rank
    "one choice": wrong(
        CHOOSE,
        "a.jsonl",
        lines({"text": "a", "options": ["x"], "label": 0}),
        "line 1, column 'options'",
        "two choices",
    ),
    "choices no list": wrong(
        CHOOSE,
        "a.jsonl",
        lines({"text": "a", "options": "x", "label": 0}),
        "line 1, column 'options'",
        "a list",
    ),
    "choice that is not there": wrong(
        CHOOSE,
        "a.jsonl",
        lines({"text": "a", "options": ["x", "y"], "label": 2}),
        "line 1, column 'label'",
        "0 to 1",
    ),
    "one of two choices": wrong(
        COPA,
        "a.csv",
        b"text,one,two,label\na,x,y,0\na,x,,0\n",
        "line 3, column 'one, two'",
        "expected two choices or more",
    ),
    "relevances too few": wrong(
        RANK,
        "a.jsonl",
        lines({"text": "a", "options": ["x", "y"], "label": [1]}),
        "line 1, column 'label'",
        "2 numbers",
    ),
    "record: entity outside": wrong(
        RECORD,
        "a.jsonl",
        lines(passage({"start": 8, "end": 50})),
        "line 1, column 'passage.entities[1].end'",
        "12 characters",
        format="record",
    ),
    "record: answer no entity": wrong(
        RECORD,
        "a.jsonl",
        lines(passage(answers=[{"text": "Eve"}])),
        "line 1, column 'qas[0].answers'",
        "passage's entities",
        format="record",
    ),
    "multirc: no questions": wrong(
        MULTIRC,
        "a.jsonl",
        lines({"idx": 0, "passage": {"text": "p"}}),
        "line 1, column 'passage.questions'",
        "a list",
        format="multirc",
    ),
    "multirc: wrong label": wrong(
        MULTIRC,
        "a.jsonl",
        lines(paragraph(), paragraph(label=7)),
        "line 2, column 'label'",
        "found 7",
        format="multirc",
    ),
    # marked
    "word outside": wrong(
        WORDS, "a.jsonl", lines(MARKS, {**MARKS, "w2": 9}), "line 2, column 'w2, p2'", "from 0 to 2"
    ),
    "phrase missing": wrong(
        WORDS, "a.jsonl", lines({**MARKS, "p1": None}), "line 1, column 'w1, p1'", "as a text"
    ),
    "mark outside the text": wrong(
        PLACES, "a.jsonl", lines({**CHARACTERS, "e1": 70}), "line 1, column 's1, e1'", "11 characters"
    ),
    "mark backwards": wrong(
        PLACES,
        "a.jsonl",
        lines({**CHARACTERS, "s2": 5, "e2": 2}),
        "line 1, column 's2, e2'",
        "start before end",
    ),
}
WRONG = OF_ANY_KIND | OF_KINDS

FINE: dict[str, tuple[Case, int]] = {
    "latin-1 in csv": (Case(CLASSIFY, "a.csv", b"text,label\nn\xe9,no\n"), 1),
    "latin-1 in conll": (Case(TAG, "a.conll", b"a\tO\n\nn\xe9\tO\n"), 2),
    "utf-16": (Case(CLASSIFY, "a.csv", "text,label\né,no\n".encode("utf-16")), 1),
    "utf-16 in jsonl": (Case(CLASSIFY, "a.jsonl", lines(TEXT).decode().encode("utf-16")), 1),
    "commas in tsv": (Case(CLASSIFY, "a.tsv", b"text,label\na,no\n"), 1),
    "quoted tab in tsv": (Case(CLASSIFY, "a.tsv", b'text\tlabel\n"a\tb"\tno\n'), 1),
    "CR line ends": (Case(CLASSIFY, "a.csv", b"text,label\rcat,no\rdog,yes\r"), 2),
    "CR LF line ends": (Case(CLASSIFY, "a.tsv", b"text\tlabel\r\ncat\tno\r\n"), 1),
    "CR in jsonl": (Case(CLASSIFY, "a.jsonl", lines(TEXT, TEXT).replace(b"\n", b"\r")), 2),
    "CR in conll": (Case(TAG, "a.conll", b"cat\tO\rdog\tB-x\r\rcow\tO\r"), 2),
    "byte order mark": (Case(CLASSIFY, "a.csv", b"\xef\xbb\xbftext,label\ncat,no\n"), 1),
    "mark in json": (Case(SPAN, "a.json", b"\xef\xbb\xbf" + squad(asked())), 1),
    "mark in conll": (Case(TAG, "a.conll", b"\xef\xbb\xbfcat\tO\n"), 1),
    "no last line end": (Case(TAG, "a.conll", b"cat\tO\n\ndog\tI-x"), 2),
    "blank lines": (Case(CLASSIFY, "a.jsonl", b"\n" + lines(TEXT) + b"\n \n" + lines(TEXT)), 2),
    "spaces in conll": (Case(TAG, "a.conll", b"-DOCSTART- -X- O\n\ncat  NN  O\ndog NN B-x\n"), 1),
    "mrqa": (Case(SPAN, "a.jsonl.gz", mrqa(context(), context()), source={"format": "mrqa"}), 2),
    "record": (Case(RECORD, "a.jsonl", lines(passage()), source={"format": "record"}), 1),
    "multirc": (Case(MULTIRC, "a.jsonl", lines(paragraph()), source={"format": "multirc"}), 2),
    "ids as words": (Case(CLASSIFY, "a.csv", b"text,label\ncat,1.0\n"), 1),
}
