"""Predict with a model that `weft export --to onnx` wrote: onnxruntime, tokenizers and numpy, without weft.

    python examples/onnx_predict.py EXPORTED < requests.jsonl

A request is a line such as {"task": "rte", "sentence1": "It rains.", "sentence2": "It is wet."}, with the
columns of the task's files. The kinds span, tag and marked need more code: onnx_predict_more.py has it.
"""

import json
import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


class Predictor:
    """Answers requests of any mix of tasks, some of them in one pass."""

    def __init__(self, folder):
        with open(f"{folder}/tasks.json", encoding="utf-8") as file:
            self.about = json.load(file)
        self.tasks = {t["settings"]["name"]: {**t["settings"], **t} for t in self.about["tasks"]}
        self.tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        self.tokenizer.no_padding()
        self.session = onnxruntime.InferenceSession(
            f"{folder}/model.onnx", providers=["CPUExecutionProvider"]
        )

    def problem(self, request):
        """Why a request cannot be answered here; None if it can."""
        name = request.get("task") if isinstance(request, dict) else None
        if name not in list(self.tasks):
            return f'its task is {name!r}; expected "task": one of {", ".join(self.tasks)}'
        if not hasattr(self, kind := self.tasks[name]["kind"]):
            return f"its task is of the kind {kind}; type: python examples/onnx_predict_more.py EXPORTED"
        return None

    def predict(self, requests, batch_size=32):
        """The answer to each request."""
        batches = [requests[i : i + batch_size] for i in range(0, len(requests), batch_size)]
        return [answer for batch in batches for answer in self.answers(batch)]

    def answers(self, requests):
        """Run one batch. The rows of an example (choices, separate texts) have one number in `example`."""
        tasks = [self.tasks[request["task"]] for request in requests]
        rows = [self.rows(task, request) for task, request in zip(tasks, requests, strict=True)]
        example = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
        flat = [row for own in rows for row in own]
        feeds = {name: np.zeros((len(flat), max(map(len, flat))), np.int64) for name in self.about["inputs"]}
        feeds["input_ids"] += self.about["pad_id"]
        for r, row in enumerate(flat):
            for name, values in self.tokens(row, requests[example[r]]).items():
                if name in feeds:
                    feeds[name][r, : len(row)] = values
        of_rows = {"task": np.array([tasks[e]["id"] for e in example]), "example": example}
        feeds |= {name: value for name, value in of_rows.items() if name in feeds}
        names = [output.name for output in self.session.get_outputs()]
        outputs = dict(zip(names, self.session.run(names, feeds), strict=True))
        answers = []
        for e, (task, request) in enumerate(zip(tasks, requests, strict=True)):
            by, logits = self.about["outputs"][task["output"]]["by"], outputs[task["output"]]
            own = logits[e] if by == "example" else logits[example == e]
            answer = getattr(self, task["kind"])(own, task, request, rows[e])
            answers.append({"task": task["settings"]["name"], **answer})
        return answers

    def tokens(self, row, request):
        """The inputs that have one value per token of a row."""
        types = row.type_ids if self.about["token_types"] else 0
        return {"input_ids": row.ids, "attention_mask": 1, "token_type_ids": types}

    def texts(self, task, request):
        """The texts of a request; a column may be a template."""
        return [c.format_map(request) if "{" in c else request[c] for c in task["texts"]]

    def choices(self, task, request):
        """The choices of a request: a list in one column, or one per column."""
        columns = task.get("choices", ())
        return request[columns[0]] if len(columns) == 1 else [request[c] for c in columns if request.get(c)]

    def rows(self, task, request):
        """The rows of an example."""
        texts, batch = self.texts(task, request), []
        for choice in self.choices(task, request):
            *stem, last = [*texts[1:], choice]
            placed = stem and "@placeholder" in stem[0]
            batch.append(
                (texts[0], stem[0].replace("@placeholder", last) if placed else " ".join([*stem, last]))
            )
        batch = batch or ([(text,) for text in texts] if task.get("apart") else [texts])
        self.tokenizer.enable_truncation(self.about["max_length"], direction=self.about["truncation_side"])
        return [self.tokenizer.encode(*row) for row in batch]

    def classify(self, logits, task, request, rows):
        """The most likely label."""
        chances = dict(zip(task["labels"], softmax(logits, task).tolist(), strict=True))
        return {"label": task["labels"][logits.argmax()], "probabilities": chances}

    def multilabel(self, logits, task, request, rows):
        """All labels above their thresholds."""
        chances = 1 / (1 + np.exp(-logits.astype(float) / (task.get("temperature") or 1)))
        holds = chances > (task.get("thresholds") or 0.5)
        labels = [label for label, hold in zip(task["labels"], holds, strict=True) if hold]
        return {"labels": labels, "probabilities": dict(zip(task["labels"], chances.tolist(), strict=True))}

    def regress(self, logits, task, request, rows):
        """A number, or several; inside the task's range, which 0 and 1 are the ends of."""
        if task["range"]:
            low, high = (0, 1) if task.get("targets") != "raw" else task["range"]
            shift, scale = (
                (task["range"][0], np.ptp(task["range"])) if task.get("targets") != "raw" else (0, 1)
            )
            logits = shift + logits.clip(low, high) * scale
        return {"value": logits.tolist() if len(logits) > 1 else float(logits[0])}

    similarity = regress

    def choose(self, logits, task, request, rows):
        """The choice with the highest score."""
        best, scores = int(logits.argmax()), softmax(logits[:, 0], task).tolist()
        return {"choice": best, "text": self.choices(task, request)[best], "probabilities": scores}

    def rank(self, logits, task, request, rows):
        """The candidates, best first."""
        scores = logits[:, 0]
        return {"order": (-scores).argsort(kind="stable").tolist(), "scores": scores.tolist()}


def softmax(logits, task):
    """exp(x / temperature), normalized."""
    scores = np.exp((logits - logits.max()).astype(float) / (task.get("temperature") or 1))
    return scores / scores.sum()


def main(predictor):
    """Answer the requests of standard input, one JSON object per line."""
    requests = []
    for number, line in enumerate(sys.stdin, 1):
        if line.strip():
            requests.append(json.loads(line))
            if problem := predictor.problem(requests[-1]):
                sys.exit(f"line {number}: {problem}")
    for answer in predictor.predict(requests):
        print(json.dumps(answer, ensure_ascii=False))


if __name__ == "__main__":
    main(Predictor(sys.argv[1]))
