"""Building the model that a run file describes, and counting its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.utils.notes import Tell, print_note

if TYPE_CHECKING:
    from weft.config.run_file import RunFile
    from weft.model.accounting.ledger import Ledger
    from weft.model.model import Model


def model_of(run_file: RunFile, tell: Tell = print_note) -> Model:
    """Load the encoder and build the model with its initial values.

    Args:
        run_file: the run file.
        tell: called with each note on how the encoder was loaded.
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
        head_start=run_file.heads.start,
        max_length=training.max_length,
        seed=training.seed,
        kernels=run_file.kernels,
    )


def ledger_of(run_file: RunFile, basis: int | None = None) -> Ledger:
    """Count the parameters of the run file's model; a `random:` encoder is built on the meta device.

    Args:
        run_file: the run file.
        basis: the rounded size of the encoder, as in `Model.ledger`.
    """
    return counted_model(run_file).ledger(basis)


def counted_model(run_file: RunFile) -> Model:
    """Build the run file's model to count it; with a `random:` encoder on the meta device, without memory.

    Args:
        run_file: the run file.
    """
    from weft.model.model import Model

    heads = run_file.heads
    return Model(
        run_file.encoder,
        run_file.tasks,
        run_file.method,
        pool=heads.pool,
        head_layers=heads.layers,
        head_hidden=heads.hidden,
        device="meta" if run_file.encoder.startswith("random:") else None,
    )
