"""The model that a run file says."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.config.run_file import RunFile
    from weft.model.model import Model


def model_of(run_file: RunFile) -> Model:
    """Load the encoder and build the model at its start; what the encoder has to say is printed."""
    from weft.encoder.load import load_encoder
    from weft.model.model import Model

    training = run_file.training
    encoder = load_encoder(run_file.encoder, seed=training.seed)
    for note in encoder.notes:
        print(f"note: {note}", file=sys.stderr)
    return Model(
        encoder,
        run_file.tasks,
        run_file.method,
        pool=run_file.heads.pool,
        head_dropout=run_file.heads.dropout,
        head_layers=run_file.heads.layers,
        head_hidden=run_file.heads.hidden,
        max_length=training.max_length,
        seed=training.seed,
        kernels=run_file.kernels,
    )
