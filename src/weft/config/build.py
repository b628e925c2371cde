"""The model that a run file describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.utils.notes import Tell, print_note

if TYPE_CHECKING:
    from weft.config.run_file import RunFile
    from weft.model.accounting.ledger import Ledger
    from weft.model.model import Model


def model_of(run_file: RunFile, tell: Tell = print_note) -> Model:
    """Load the encoder and build the model at its start.

    Args:
        run_file: the run file.
        tell: takes what a user should know of how the encoder was loaded.
    """
    from weft.encoder.load import load_encoder
    from weft.model.model import Model

    training = run_file.training
    encoder = load_encoder(run_file.encoder, seed=training.seed)
    for note in encoder.notes:
        tell(note)
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


def ledger_of(run_file: RunFile, basis: int | None = None) -> Ledger:
    """The parameter counts of the run file's model; of `random:` encoders without memory for the weights.

    Args:
        run_file: the run file.
        basis: as `Model.ledger` takes it.
    """
    from weft.model.model import Model

    heads = run_file.heads
    model = Model(
        run_file.encoder,
        run_file.tasks,
        run_file.method,
        pool=heads.pool,
        head_layers=heads.layers,
        head_hidden=heads.hidden,
        device="meta" if run_file.encoder.startswith("random:") else None,
    )
    return model.ledger(basis)
