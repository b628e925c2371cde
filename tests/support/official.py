"""The rows of `suite_rows` as files: with the hub's names, and as the official downloads have them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.suite_rows import HUB, PASSAGE, Row


def write_hub(root: Path, suite: str) -> None:
    """ROOT/SUITE/TASK/SPLIT.parquet; of a suite of one task ROOT/SUITE/SPLIT.parquet."""
    for task, own in HUB[suite].items():
        folder = root / suite / ("" if task == suite else "squad" if task == "mrqa_squad" else task)
        folder.mkdir(parents=True, exist_ok=True)
        for split, rows in own.items():
            columns = {key: [row[key] for row in rows] for key in rows[0]}
            pq.write_table(pa.table(columns), folder / f"{split}.parquet")


def table(header: list[str] | None, rows: Iterable[Iterable[Any]], quote: bool = False) -> bytes:
    def value(item: Any) -> str:
        text = str(item)
        return '"' + text.replace('"', '""') + '"' if quote and '"' in text else text

    lines = [*([header] if header else []), *rows]
    return "".join("\t".join(map(value, line)) + "\n" for line in lines).encode()


def lines(rows: Iterable[Row]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def glue_file(task: str, split: str, rows: list[Row]) -> tuple[str, bytes]:
    stem = {
        "validation": "dev",
        "validation_matched": "dev_matched",
        "validation_mismatched": "dev_mismatched",
    }
    name, test = f"{stem.get(split, split)}.tsv", split.startswith("test")
    entail = ("entailment", "not_entailment")

    def plain(header: list[str], *columns: Callable[[Row], Any]) -> bytes:
        used = list(zip(header, columns, strict=True))[: -1 if test else None]
        return table([h for h, _ in used], [[get(row) for _, get in used] for row in rows])

    def of(column: str) -> Callable[[Row], Any]:
        return lambda row: row[column]

    def fixed(value: Any) -> Callable[[Row], Any]:
        return lambda row: value

    index = of("idx")
    if task == "cola":
        if test:
            return f"CoLA/{name}", table(["index", "sentence"], [[r["idx"], r["sentence"]] for r in rows])
        return f"CoLA/{name}", table(
            None, [["gj04", r["label"], "*" * (1 - r["label"]), r["sentence"]] for r in rows]
        )
    if task == "sst2":
        if test:
            return f"SST-2/{name}", table(["index", "sentence"], [[r["idx"], r["sentence"]] for r in rows])
        return f"SST-2/{name}", table(["sentence", "label"], [[r["sentence"], r["label"]] for r in rows])
    if task == "mrpc":
        header = ["index" if test else "Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
        first = "idx" if test else "label"
        body = [[r[first], 700 + r["idx"], 800 + r["idx"], r["sentence1"], r["sentence2"]] for r in rows]
        return f"MRPC/{name}", b"\xef\xbb\xbf" + table(header, body)
    if task == "stsb":
        header = [
            "index",
            "genre",
            "filename",
            "year",
            "old_index",
            "source1",
            "source2",
            "sentence1",
            "sentence2",
        ]
        middle = [fixed(x) for x in ("main-news", "MSRvid", 2012, 1, "none", "none")]
        return f"STS-B/{name}", plain(
            [*header, "score"], index, *middle, of("sentence1"), of("sentence2"), of("label")
        )
    if task == "qqp":
        header = (
            ["id", "question1", "question2"] if test else ["id", "qid1", "qid2", "question1", "question2"]
        )
        asked = (of("question1"), of("question2"))
        columns = (index, *asked) if test else (index, fixed(1), fixed(2), *asked)
        return f"QQP/{name}", plain([*header, "is_duplicate"], *columns, of("label"))
    if task == "mnli":
        parses = [f"sentence{i}_{kind}" for kind in ("binary_parse", "parse") for i in (1, 2)]
        header = ["index", "promptID", "pairID", "genre", *parses, "sentence1", "sentence2", "gold_label"]
        middle = [fixed(x) for x in (1, "1n", "fiction", *("( x )",) * 4)]
        names = ("entailment", "neutral", "contradiction")
        columns = (index, *middle, of("premise"), of("hypothesis"), lambda r: names[r["label"]])
        return f"MNLI/{name}", plain(header, *columns)
    if task == "ax":
        body = [[row["idx"], row["premise"], row["hypothesis"]] for row in rows]
        return "diagnostic/diagnostic.tsv", table(["index", "sentence1", "sentence2"], body)
    if task == "qnli":
        columns = (index, of("question"), of("sentence"), lambda r: entail[r["label"]])
        return f"QNLI/{name}", plain(["index", "question", "sentence", "label"], *columns)
    label: Callable[[Row], Any] = of("label") if task == "wnli" else lambda r: entail[r["label"]]
    columns = (index, of("sentence1"), of("sentence2"), label)
    return f"{task.upper()}/{name}", plain(["index", "sentence1", "sentence2", "label"], *columns)


def superglue_file(task: str, split: str, rows: list[Row]) -> tuple[str, bytes]:
    folder = {"boolq": "BoolQ", "multirc": "MultiRC", "record": "ReCoRD", "wic": "WiC"}.get(
        task, task.upper()
    )
    name = f"{folder}/{'val' if split == 'validation' else split}.jsonl"
    if task == "multirc":
        return name, lines(_paragraphs(rows, split != "test"))
    if task == "record":
        return name, lines(_passages(rows, split != "test"))
    names: dict[str, tuple[Any, ...]] = {
        "cb": ("entailment", "contradiction", "neutral"),
        "rte": ("entailment", "not_entailment"),
        "copa": (0, 1),
    }
    found = []
    for row in rows:
        entry = dict(row)
        label = entry.pop("label")
        if task == "wsc":
            entry = {
                **{key: entry[key] for key in ("text", "idx")},
                "target": {key: entry[key] for key in entry if key.startswith("span")},
            }
        if split != "test":
            entry["label"] = names.get(task, (False, True))[label]
        found.append(entry)
    return name, lines(found)


def _paragraphs(rows: list[Row], labelled: bool) -> list[Row]:
    found: dict[int, Row] = {}
    for row in rows:
        entry = found.setdefault(
            row["idx_paragraph"],
            {
                "idx": row["idx_paragraph"],
                "version": 1.1,
                "passage": {"text": row["paragraph"], "questions": []},
            },
        )
        asked = entry["passage"]["questions"]
        if not asked or asked[-1]["idx"] != row["idx_question"]:
            asked.append({"question": row["question"], "idx": row["idx_question"], "answers": []})
        label = {"label": row["label"]} if labelled else {}
        asked[-1]["answers"].append({"text": row["answer"], "idx": row["idx_answer"], **label})
    return list(found.values())


def _passages(rows: list[Row], labelled: bool) -> list[Row]:
    def places(name: str) -> list[dict[str, int]]:
        starts = [i for i in range(len(PASSAGE)) if PASSAGE.startswith(name, i)]
        return [{"start": i, "end": i + len(name) - 1} for i in starts]

    entities = [place for name in ("Bob", "Ann", "Rome") for place in places(name)]
    qas = []
    for row in rows:
        answers = [{**place, "text": text} for text in row["answers"] for place in places(text)]
        qas.append(
            {"query": row["query"], "idx": row["idx"]["query"], **({"answers": answers} if labelled else {})}
        )
    idx = rows[0]["idx"]["passage"]
    return [{"source": "News", "passage": {"text": PASSAGE, "entities": entities}, "qas": qas, "idx": idx}]


MRQA_NAMES = {
    "mrqa_squad": "SQuAD",
    "newsqa": "NewsQA",
    "triviaqa": "TriviaQA-web",
    "searchqa": "SearchQA",
    "hotpotqa": "HotpotQA",
    "naturalquestions": "NaturalQuestionsShort",
}


def mrqa_line(rows: list[Row]) -> Row:
    """One context with its questions; each answer with its places, the last character inside."""
    qas = []
    for row in rows:
        pairs = zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
        detected = [
            {"text": text, "char_spans": [[start, start + len(text) - 1]], "token_spans": [[0, 0]]}
            for text, start in pairs
            if start >= 0
        ]
        asked = {"qid": row["qid"], "question": row["question"], "question_tokens": []}
        qas.append({**asked, "detected_answers": detected, "answers": row["answers"]["text"][-1:]})
    return {"id": "", "context": rows[0]["context"], "context_tokens": [], "qas": qas}


def other_file(suite: str, task: str, split: str, rows: list[Row]) -> tuple[str, bytes]:
    dev = "dev" if split == "validation" else split
    if suite == "mrqa":
        name = MRQA_NAMES[task]
        data = lines([{"header": {"dataset": name, "split": dev}}, mrqa_line(rows)])
        return f"{dev}/{name}.jsonl.gz", gzip.compress(data)
    if suite == "squad":
        qas = [
            {
                "id": r["id"],
                "question": r["question"],
                "answers": [
                    {"text": t, "answer_start": s}
                    for t, s in zip(r["answers"]["text"], r["answers"]["answer_start"], strict=True)
                ],
            }
            for r in rows
        ]
        whole = {"data": [{"title": "Cats", "paragraphs": [{"context": rows[0]["context"], "qas": qas}]}]}
        return f"{dev}-v1.1.json", json.dumps({**whole, "version": "1.1"}).encode()
    if suite == "wnut17":
        kinds = ("corporation", "creative-work", "group", "location", "person", "product")
        tags = ["O", *(f"{place}-{kind}" for kind in kinds for place in "BI")]
        names = {
            "train": "wnut17train.conll",
            "validation": "emerging.dev.conll",
            "test": "emerging.test.annotated",
        }
        text = "\t\n".join(
            "".join(f"{w}\t{tags[t]}\n" for w, t in zip(r["tokens"], r["ner_tags"], strict=True))
            for r in rows
        )
        return names[split], text.encode()
    if suite == "snli":
        gold = ("entailment", "neutral", "contradiction", "-")
        found = [
            {"gold_label": gold[r["label"]], "sentence1": r["premise"], "sentence2": r["hypothesis"]}
            for r in rows
        ]
        return f"snli_1.0_{dev}.jsonl", lines(found)
    if suite == "scitail":
        body = [[r["premise"], r["hypothesis"], r["label"]] for r in rows]
        return f"tsv_format/scitail_1.0_{dev}.tsv", table(None, body)
    if suite == "swag":
        columns = [c for c in rows[0] if split != "test" or c != "label"]
        quoted = [",".join(f'"{row[c]}"' for c in columns) for row in rows]
        text = "\n".join([",".join(["", *columns]), *(f"{i},{line}" for i, line in enumerate(quoted))])
        return f"{'val' if split == 'validation' else split}.csv", (text + "\n").encode()
    ids = "ids-" if task in ("sst", "cfimdb") else ""
    body = [[i, *row.values()] for i, row in enumerate(rows)]
    stem = f"{ids}{task}-{'test-student' if split == 'test' else dev}"
    return f"{stem}.csv", table(["", *rows[0]], body, quote=True)


def write_official(root: Path, suite: str) -> None:
    """The official files, in a folder of the suite's name."""
    for task, own in HUB[suite].items():
        for split, rows in own.items():
            makers = {"glue": glue_file, "superglue": superglue_file}
            if suite in makers:
                name, data = makers[suite](task, split, rows)
            else:
                name, data = other_file(suite, task, split, rows)
            path = root / suite / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
