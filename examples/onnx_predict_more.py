"""As onnx_predict.py, for every kind: choices, long texts in windows (span, tag) and marked spans (marked).

    python examples/onnx_predict_more.py EXPORTED < requests.jsonl

A request of the kind marked has "marks": [[text, first character, last character + 1], …], one per mark.
"""

import sys
import unicodedata

import numpy as np
from onnx_predict import Predictor, main, softmax

LONGEST, QUESTION = 30, 64
"""The most tokens of a predicted span, and of a question before its context."""


class MorePredictor(Predictor):
    """Answers requests of all kinds."""

    def tokens(self, row, request):
        """With marks: 1 at tokens of the first mark, 2 of the second, 3 of both."""
        marks = np.zeros(len(row), np.int64)
        for bit, (text, start, end) in enumerate(request.get("marks", ())):
            places = zip(row.sequence_ids, row.offsets, strict=True)
            marks |= np.array([s == text and b > start and a < end for s, (a, b) in places], np.int64) << bit
        return {**super().tokens(row, request), "marks": marks}

    def rows(self, task, request):
        """One row per choice; windows of a context or of words; else as before."""
        if task["windows"] is None:
            if "choices" not in task:
                return super().rows(task, request)
            rows = [self.with_choice(self.texts(task, request), c) for c in self.choices(task, request)]
            self.tokenizer.enable_truncation(
                self.about["max_length"], direction=self.about["truncation_side"]
            )
            return [self.tokenizer.encode(*row) for row in rows]
        texts = self.words(task, request) if task["windows"] == "words" else self.texts(task, request)
        if task["windows"] == "words":
            space, strategy = " " if self.about["space_before_words"] else "", "longest_first"
            parts = [[space + word for word in texts]]
        else:
            strategy, parts = "only_second", [self.short(texts[0]), texts[1]]
        self.tokenizer.enable_truncation(self.about["max_length"], stride=task["stride"], strategy=strategy)
        row = self.tokenizer.encode(*parts, is_pretokenized=task["windows"] == "words")
        return [row, *row.overflowing]

    def words(self, task, request):
        """The words of a sentence: a list, or a text."""
        words = request[task["texts"][0]]
        return words.split() if isinstance(words, str) else words

    def short(self, question):
        """The beginning of a question, so that its context has room."""
        self.tokenizer.no_truncation()
        most = min(QUESTION, (self.about["max_length"] - self.tokenizer.num_special_tokens_to_add(True)) // 2)
        tokens = self.tokenizer.encode(question, add_special_tokens=False)
        end = len(question) if len(tokens) <= most else tokens.offsets[most - 1][1]
        while len(self.tokenizer.encode(question[:end], add_special_tokens=False)) > most:
            end -= 1
        return question[:end]

    def choices(self, task, request):
        """The choices of a request: a list in one column, or one per column."""
        columns = task["choices"]
        return request[columns[0]] if len(columns) == 1 else [request[c] for c in columns if request.get(c)]

    def with_choice(self, texts, choice):
        """A text and a choice; of two texts, the choice ends the second, or is put in its place there."""
        if len(texts) == 1:
            return texts[0], choice
        first, second = texts
        if "@placeholder" in second:
            return first, second.replace("@placeholder", choice)
        return first, f"{second} {choice}"

    marked = Predictor.classify

    def choose(self, logits, task, request, rows):
        """The choice with the highest score."""
        best, scores = int(logits.argmax()), softmax(logits[:, 0], task).tolist()
        return {"choice": best, "text": self.choices(task, request)[best], "probabilities": scores}

    def rank(self, logits, task, request, rows):
        """The candidates, best first."""
        scores = logits[:, 0]
        return {"order": (-scores).argsort(kind="stable").tolist(), "scores": scores.tolist()}

    def span(self, logits, task, request, rows):
        """The best span of at most LONGEST tokens, over all windows of the context."""
        context, spans = self.texts(task, request)[1], [(0.0, 0, 0)]
        for scores, row in zip(logits, rows, strict=True):
            places = enumerate(zip(row.sequence_ids, row.offsets, strict=True))
            inside = [i for i, (sequence, (a, b)) in places if sequence == 1 and b > a]
            if not inside:
                continue
            n = np.arange(len(inside))
            pairs = scores[inside, 0][:, None] + scores[inside, 1]
            pairs = np.where((n >= n[:, None]) & (n < n[:, None] + LONGEST), pairs, -np.inf)
            i, j = divmod(int(pairs.argmax()), len(inside))
            spans.append((float(pairs[i, j]), row.offsets[inside[i]][0], row.offsets[inside[j]][1]))
        score, start, end = max(spans[1:] or spans, key=lambda span: span[0])
        while end < len(context) and unicodedata.category(context[end]).startswith("M"):
            end += 1  # accents that some tokenizers leave out
        text = context[start:end]
        start += len(text) - len(text.lstrip())
        return {"answer": text.strip(), "start": start, "end": start + len(text.strip()), "score": score}

    def tag(self, logits, task, request, rows):
        """One tag per word, read in the window in which the word is farthest from the ends."""
        best, words = {}, self.words(task, request)
        for number, row in enumerate(rows):
            tokens = [(place, word) for place, word in enumerate(row.word_ids) if word is not None]
            for n, (place, word) in enumerate(tokens):
                far = min(n, len(tokens) - 1 - n)
                if (n == 0 or word != tokens[n - 1][1]) and far > best.get(word, (-1,))[0]:
                    best[word] = far, number, place
        labels = task["labels"]
        outside = "O" if "O" in labels else labels[0]
        tags = [labels[logits[best[w][1:]].argmax()] if w in best else outside for w in range(len(words))]
        bio = "O" in labels and all(tag == "O" or (tag[:2] in ("B-", "I-") and tag[2:]) for tag in labels)
        return {"tags": tags, **(entities(tags, words) if bio else {})}


def entities(tags, words):
    """The entities that BIO tags name; an I- that continues nothing begins one."""
    fixed = [
        "B" + tag[1:] if tag[0] == "I" and (not n or tags[n - 1][2:] != tag[2:]) else tag
        for n, tag in enumerate(tags)
    ]
    begins = [n for n, tag in enumerate(fixed) if tag[0] == "B"]
    spans = []
    for first in begins:
        last = first
        while last + 1 < len(fixed) and fixed[last + 1][0] == "I":
            last += 1
        text = " ".join(words[first : last + 1])
        spans.append({"type": fixed[first][2:], "text": text, "first": first, "last": last})
    return {"tags": fixed, "entities": spans}


if __name__ == "__main__":
    main(MorePredictor(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__))
