"""One training step: micro-batches, gradients, what is prepared ahead."""
