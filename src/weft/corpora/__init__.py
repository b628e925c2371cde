"""Predicting many files: `weft predict` with several files, by worker processes or on Ray."""
