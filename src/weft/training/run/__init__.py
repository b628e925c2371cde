"""A training run: loop, log, checkpoints, evaluations."""
