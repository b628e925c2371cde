"""Files as people have them: six formats and habits, generated, each learnable by a cat in the text."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path

from tests.support.tiny_run import WORDS


def sentences(count: int, seed: int = 1, least: int = 5) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(least, 12))) for _ in range(count)]


def is_cat(text: str) -> bool:
    return "cat" in text.split()


def semicolons(folder: Path, count: int = 120) -> Path:
    """A csv of a German spreadsheet: semicolons, a byte order mark, an index without a name, odd columns."""
    file = folder / "Umfrage 2024.csv"
    draw = random.Random(2)
    with file.open("w", encoding="utf-8-sig", newline="") as out:
        writer = csv.writer(out, delimiter=";")
        writer.writerow(["", "Kunden-Nr.", "Datum", "Kommentar (frei)", "Bewertung", "Filiale"])
        for number, text in enumerate(sentences(count)):
            date = f"{draw.randint(1, 28):02}.03.2024"
            text = f"{text}; schöne Grüße" if number % 3 == 0 else text
            shop = draw.choice(["Köln", "Bonn", "Ulm"])
            writer.writerow(
                [number, 10_000 + 7 * number, date, text, "gut" if is_cat(text) else "schlecht", shop]
            )
    return file


def null_labels(folder: Path, count: int = 120) -> Path:
    """A jsonl file whose labels are null or empty in some rows."""
    file = folder / "tickets.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for number, text in enumerate(sentences(count, 3)):
            label = "urgent" if is_cat(text) else "normal"
            entry = {
                "ticket_id": f"T-{number:05}",
                "body": text,
                "priority_label": label,
                "meta": {"n": number},
            }
            if number % 10 == 4:
                entry["priority_label"] = None if number % 20 == 4 else ""
            out.write(json.dumps(entry) + "\n")
    return file


def quoted_tsv(folder: Path, count: int = 120) -> Path:
    """A tsv in which texts with quotes, tabs and line breaks are quoted."""
    file = folder / "comments.tsv"
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, delimiter="\t")
        writer.writerow(["id", "comment", "category"])
        for number, text in enumerate(sentences(count, 4)):
            words = text.split()
            shown = f'{words[0]} "{words[1]}"\n{" ".join(words[2:])}' if number % 2 else text
            shown = f"{shown}\tthen" if number % 7 == 0 else shown
            writer.writerow([number, shown, "pets" if is_cat(text) else "other"])
    return file


def conll(folder: Path, count: int = 120) -> Path:
    """A conll file with four columns, as CoNLL-2003 has them."""
    file = folder / "names.conll"
    with file.open("w", encoding="utf-8") as out:
        out.write("-DOCSTART- -X- -X- O\n\n")
        for text in sentences(count, 5):
            for word in text.split():
                tag = "B-ANIMAL" if word in ("cat", "dog", "bird") else "O"
                out.write(f"{word} NN B-NP {tag}\n")
            out.write("\n")
    return file


def squad(folder: Path, count: int = 40) -> Path:
    """A file in the format of SQuAD v1.1, three questions per text."""
    paragraphs = []
    for number, context in enumerate(sentences(count, 6, least=10)):
        words = context.split()
        qas = []
        for question in range(3):
            at = (5 * number + 3 * question) % (len(words) - 1)
            start = len(" ".join(words[:at])) + (at > 0)
            answers = [{"text": words[at], "answer_start": start}]
            qas.append(
                {
                    "id": f"{number}-{question}",
                    "question": f"what is {words[at]} there now",
                    "answers": answers,
                }
            )
        paragraphs.append({"context": context, "qas": qas})
    file = folder / "questions.json"
    file.write_text(
        json.dumps({"version": "1.1", "data": [{"title": "cats", "paragraphs": paragraphs}]}, indent=1)
    )
    return file


def latin_1(folder: Path, count: int = 120) -> Path:
    """A csv in latin-1 with whole-number ratings."""
    file = folder / "avis.csv"
    draw = random.Random(7)
    with file.open("w", encoding="latin-1", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["titre", "avis", "note_client", "stars"])
        for text in sentences(count, 8):
            stars = draw.choice([4, 5]) if is_cat(text) else draw.choice([1, 2, 3])
            writer.writerow(
                ["très bien" if is_cat(text) else "déçu", f"{text}, où ça a été", draw.randint(10, 99), stars]
            )
    return file


SIX: dict[str, Callable[[Path], Path]] = {
    "semicolons": semicolons,
    "null_labels": null_labels,
    "quoted_tsv": quoted_tsv,
    "conll": conll,
    "squad": squad,
    "latin_1": latin_1,
}
"""The six files by what is odd about them."""
