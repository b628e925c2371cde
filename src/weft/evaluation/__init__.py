"""Evaluating a model: metrics over whole splits, averages, baselines and submission files."""
