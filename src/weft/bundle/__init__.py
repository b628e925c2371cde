"""A saved model: a folder with one file per task.

    bundle.json               encoder, method, the order of the tasks
    shared.safetensors        what tasks share: trained encoder weights, shared and group parameters
    tasks/NAME.safetensors    what belongs to one task, its head included
    encoder/                  the encoder and its tokenizer, only if requested

Each task's file records the hashes of the encoder, the shared file and the method that it needs.

Nothing is imported here: `weft.bundle.manifest` must answer without torch. `weft.load` and `Model.save` are
the public functions.
"""
