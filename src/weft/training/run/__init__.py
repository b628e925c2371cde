"""A training run: loop, components, log, checkpoints and evaluations."""
