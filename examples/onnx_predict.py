"""Predict with a model that `weft export --to onnx` wrote: onnxruntime, tokenizers and numpy, without weft.

    python examples/onnx_predict.py EXPORTED < requests.jsonl

A request is a line such as {"task": "rte", "sentence1": "It rains.", "sentence2": "It is wet."}, with the
columns of the task's files. This is the code for labels and numbers; onnx_predict_more.py has all kinds.
"""

import json
import sys
from hashlib import file_digest
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer


class Predictor:
    """Answers requests of any mix of tasks, a batch of them in one pass."""

    def __init__(self, folder):
        if not (Path(folder) / "tasks.json").is_file():
            sys.exit(f"{folder} is no export to ONNX; type: weft export BUNDLE --to onnx --out FOLDER")
        self.about = json.loads((Path(folder) / "tasks.json").read_text("utf-8"))
        for name, sha256 in self.about["graph"]["sha256"].items():
            with (Path(folder) / name).open("rb") as file:
                if file_digest(file, "sha256").hexdigest() != sha256:
                    sys.exit(f"{folder}/{name} is damaged or belongs to another export; export again")
        self.tasks = {t["settings"]["name"]: {**t["settings"], **t} for t in self.about["tasks"]}
        self.tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        self.tokenizer.no_padding()
        self.session = InferenceSession(f"{folder}/model.onnx", providers=["CPUExecutionProvider"])

    def predict(self, requests, batch_size=32):
        """The answer to each request."""
        batches = [requests[i : i + batch_size] for i in range(0, len(requests), batch_size)]
        return [answer for batch in batches for answer in self.answers(batch)]

    def answers(self, requests):
        """Run one batch. An example may have several rows: they have its number in the input `example`."""
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

    def texts(self, task, request):
        """The texts of a request; a column may be a template."""
        return [c.format_map(request) if "{" in c else request[c] for c in task["texts"]]

    def rows(self, task, request):
        """The rows of an example: a text or a pair, or one row per text of a pair that is encoded apart."""
        texts = self.texts(task, request)
        self.tokenizer.enable_truncation(self.about["max_length"], direction=self.about["truncation_side"])
        rows = [[text] for text in texts] if task.get("apart") else [texts]
        return [self.tokenizer.encode(*row) for row in rows]

    def tokens(self, row, request):
        """The inputs that have one value per token of a row."""
        types = row.type_ids if self.about["token_types"] else 0
        return {"input_ids": row.ids, "attention_mask": 1, "token_type_ids": types}

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
        """A number, or several: inside the task's range, if it has one, whose ends are 0 and 1 or raw."""
        if task["range"]:
            low, high = task["range"]
            raw = task.get("targets") == "raw"
            logits = logits.clip(low, high) if raw else low + (high - low) * logits.clip(0, 1)
        return {"value": logits.tolist() if len(logits) > 1 else float(logits[0])}

    similarity = regress

    def problem(self, request):
        """Why a request cannot be answered here; None if it can."""
        name = request.get("task") if isinstance(request, dict) else None
        if name not in list(self.tasks):
            return f'its task is {name!r}; expected "task": one of {", ".join(self.tasks)}'
        if not hasattr(self, kind := self.tasks[name]["kind"]):
            return f"its task is of the kind {kind}; type: python examples/onnx_predict_more.py EXPORTED"
        try:
            self.texts(self.tasks[name], request)
        except KeyError as missing:
            return f"it has no {missing}; task {name!r} reads {', '.join(self.tasks[name]['texts'])}"
        return None


def softmax(logits, task):
    """exp(x / temperature), normalized."""
    scores = np.exp((logits - logits.max()).astype(float) / (task.get("temperature") or 1))
    return scores / scores.sum()


def main(predictor):
    """Answer the requests of standard input, one JSON object per line."""
    requests = []
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            requests.append(json.loads(line))
        except ValueError:
            sys.exit(f"line {number} is no JSON: {line.strip()[:50]!r}")
        if problem := predictor.problem(requests[-1]):
            sys.exit(f"line {number}: {problem}")
    for answer in predictor.predict(requests):
        print(json.dumps(answer, ensure_ascii=False))


if __name__ == "__main__":
    main(Predictor(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__))
