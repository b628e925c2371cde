"""scikit-learn on sentence embeddings: the frozen encoder's mean-pooled output, and a linear model.

Features are u for one text, and [u; v; |u − v|; u ∘ v] for two. The regularization of the logistic or ridge
regression is chosen by cross-validation on the training rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.experiments.actions.peers import scale_of

if TYPE_CHECKING:
    from weft.config.run_file import RunFile
    from weft.data.splits.split import Split
    from weft.tasks.task import Task

BATCH = 64
STRENGTHS = np.logspace(-3, 3, 7)


class SklearnPeer:
    """See `Peer`.

    Args:
        run_file: the cell's run file.
        device: where texts are embedded.
        rows: the most training rows per task, from the beginning: for millions scikit-learn takes hours.
    """

    has_rate = False

    def __init__(self, run_file: RunFile, device: str | None, rows: int = 20_000) -> None:
        from weft.encoder.load import load_encoder
        from weft.utils.devices import device_of

        if not isinstance(rows, int) or rows < 1:
            raise WeftError(f"peer: rows: expected a number of training rows; found {rows!r}")
        encoder = load_encoder(run_file.encoder, seed=run_file.training.seed)
        self._device = device_of(device)
        self._model = encoder.model.to(self._device).eval()
        self._tokenizer = encoder.tokenizer
        self._length, self._seed, self._rows = run_file.training.max_length, run_file.training.seed, rows
        self.encoder = sum(p.numel() for p in self._model.parameters())
        self.trained = self.steps = 0

    def logits(self, task: Task, train: Split, tests: Sequence[Split]) -> list[list[NDArray[np.float32]]]:
        """See `Peer`: log-probabilities, or targets scaled as the task's kind scales them."""
        from sklearn.linear_model import LogisticRegression, RidgeCV
        from sklearn.model_selection import GridSearchCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        features = self._features(train.texts[: self._rows])
        labels = np.asarray(train.labels[: self._rows] if train.labels is not None else [])
        tested = [self._features(split.texts) for split in tests]
        if task.kind == "regress":
            low, high = scale_of(task)
            model: Any = make_pipeline(StandardScaler(), RidgeCV(STRENGTHS))
            model.fit(features, (labels - low) / (high - low))
            return [[np.atleast_1d(np.float32(value)) for value in model.predict(x)] for x in tested]
        classifier = make_pipeline(
            StandardScaler(), LogisticRegression(max_iter=1000, random_state=self._seed)
        )
        model = GridSearchCV(classifier, {"logisticregression__C": STRENGTHS}, cv=3)
        model.fit(features, labels)
        answers = []
        for x in tested:
            whole = np.full((len(x), task.size or len(task.labels)), -1e9, np.float32)
            whole[:, model.classes_.astype(int)] = model.predict_log_proba(x)
            answers.append(list(whole))
        return answers

    def _features(self, texts: Sequence[tuple[str, ...]]) -> NDArray[np.float32]:
        columns = [self._embedded([row[i] for row in texts]) for i in range(len(texts[0]))]
        if len(columns) == 1:
            return columns[0]
        u, v = columns[:2]
        return np.concatenate([u, v, np.abs(u - v), u * v], axis=1)

    def _embedded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        made: NDArray[np.float32] | None = None
        with torch.inference_mode():
            for first in range(0, len(order), BATCH):
                chosen = order[first : first + BATCH]
                inputs = self._tokenizer(
                    [texts[i] for i in chosen],
                    padding=True,
                    truncation=True,
                    max_length=self._length,
                    return_tensors="pt",
                ).to(self._device)
                hidden = self._model(**inputs).last_hidden_state
                mask = inputs["attention_mask"][..., None].to(hidden.dtype)
                mean = ((hidden * mask).sum(1) / mask.sum(1)).float().cpu().numpy()
                if made is None:
                    made = np.empty((len(texts), mean.shape[1]), np.float32)
                made[chosen] = mean
        assert made is not None
        return made
