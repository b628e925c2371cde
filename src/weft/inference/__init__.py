"""Running a trained model: padded shapes, and forward passes captured as CUDA graphs."""
