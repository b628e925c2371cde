"""One training step: micro-batches, padded shapes, gradients and prefetching."""
