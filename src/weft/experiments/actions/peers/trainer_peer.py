"""Hugging Face's Trainer, one model per task: full fine-tuning, or one LoRA per task by PEFT.

This is what the tutorials of transformers and PEFT do: `AutoModelForSequenceClassification`, `Trainer`, AdamW
with a linear schedule, and with `lora` a `LoraConfig` on query and value. The number of steps is the run's,
divided among the tasks.
"""

from __future__ import annotations

import tempfile
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

RATES = {True: 1e-3, False: 3e-5}
"""The default learning rates with LoRA and without: weft's own for these methods."""


class TrainerPeer:
    """See `Peer`.

    Args:
        run_file: the cell's run file; its encoder is a folder, a hub id or `minilm`.
        device: where it trains.
        lora: the rank of one LoRA per task; None: full fine-tuning.
        steps: the optimizer steps per task; None: `train.steps` divided by the number of tasks.
        lr: the peak learning rate; None: 1e-3 with LoRA, else 3e-5.
    """

    has_rate = True

    def __init__(
        self,
        run_file: RunFile,
        device: str | None,
        lora: int | None = None,
        steps: int | None = None,
        lr: float | None = None,
    ) -> None:
        from weft.encoder.load import load_tokenizer
        from weft.utils.devices import device_of

        for key, value in {"lora": lora, "steps": steps}.items():
            if value is not None and (not isinstance(value, int) or value < 1):
                raise WeftError(f"peer: {key}: expected a number above 0; found {value!r}")
        self._run, self._device, self._lora = run_file, device_of(device), lora
        self._tokenizer: Any = load_tokenizer(run_file.encoder)
        self._steps = steps or max(1, run_file.training.steps // len(run_file.tasks))
        self._lr = RATES[lora is not None] if lr is None else float(lr)
        self.encoder = self.trained = self.steps = 0

    def logits(self, task: Task, train: Split, tests: Sequence[Split]) -> list[list[NDArray[np.float32]]]:
        """See `Peer`."""
        from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

        model = self._model(task)
        training = self._run.training
        with tempfile.TemporaryDirectory(prefix="weft-peer-") as folder:
            arguments = TrainingArguments(
                output_dir=folder,
                max_steps=self._steps,
                per_device_train_batch_size=training.batch_size,
                per_device_eval_batch_size=64,
                learning_rate=self._lr,
                lr_scheduler_type="linear",
                warmup_steps=round(training.warmup * self._steps),
                weight_decay=training.weight_decay,
                max_grad_norm=training.clip or 0.0,
                seed=training.seed,
                use_cpu=self._device.startswith("cpu"),
                bf16=self._device.startswith("cuda"),
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                logging_strategy="no",
            )
            trainer = Trainer(
                model=model,
                args=arguments,
                train_dataset=self._examples(train, task),
                data_collator=DataCollatorWithPadding(self._tokenizer),
            )
            trainer.train()
            self.steps += self._steps
            logits = [trainer.predict(self._examples(split, None)).predictions for split in tests]
        return [[np.atleast_1d(row).astype(np.float32) for row in of_split] for of_split in logits]

    def _model(self, task: Task) -> Any:
        """A sequence classifier over the encoder, with one output for a regression."""
        from transformers import AutoModelForSequenceClassification

        from weft.encoder.load import load_encoder

        base: Any = load_encoder(self._run.encoder, seed=self._run.training.seed).model
        config = base.config
        config.num_labels = 1 if task.kind == "regress" else task.size or len(task.labels)
        config.problem_type = "regression" if task.kind == "regress" else "single_label_classification"
        whole: Any = AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)
        inner = getattr(whole, whole.base_model_prefix)
        inner.load_state_dict(base.state_dict(), strict=False)
        self.encoder = sum(p.numel() for p in base.parameters())
        if self._lora is None:
            self.trained += self.encoder
            return whole
        try:
            from peft import LoraConfig, TaskType, get_peft_model
        except ImportError:
            raise WeftError("peer: lora needs the package peft; type: pip install peft") from None
        wrapped: Any = get_peft_model(
            whole,
            LoraConfig(
                task_type=TaskType.SEQ_CLS,
                r=self._lora,
                lora_alpha=self._lora,
                target_modules=["query", "value"],
            ),
        )
        self.trained += sum(p.numel() for name, p in wrapped.named_parameters() if "lora_" in name)
        return wrapped

    def _examples(self, split: Split, task: Task | None) -> list[dict[str, Any]]:
        """Tokenized examples; with a task also their labels."""
        columns = [[row[i] for row in split.texts] for i in range(len(split.texts[0]))]
        inputs = self._tokenizer(*columns[:2], truncation=True, max_length=self._run.training.max_length)
        examples = [{key: inputs[key][i] for key in inputs} for i in range(len(split))]
        if task is not None and split.labels is not None:
            low, high = scale_of(task)
            for example, label in zip(examples, split.labels, strict=True):
                value: Any = label
                example["labels"] = (
                    (float(value) - low) / (high - low) if task.kind == "regress" else int(value)
                )
        return examples
