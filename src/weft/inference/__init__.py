"""Running a trained model: predict, predict_all, embed, and forward passes captured as CUDA graphs."""
