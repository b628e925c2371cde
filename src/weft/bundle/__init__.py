"""A saved model: a folder in which every task is a file.

    bundle.json               encoder, method, the order of the tasks
    shared.safetensors        what tasks share: trained encoder weights, shared and group parameters
    tasks/NAME.safetensors    what is one task's own, its head with it
    encoder/                  the encoder and its tokenizer, only if asked for

Each task's file records the hashes of the encoder, the shared file and the method that it stands on.
"""

from weft.bundle.load import load
from weft.bundle.save import save

__all__ = ["load", "save"]
