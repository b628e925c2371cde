"""Models made of a model: merged, compacted, quantized."""
