"""Judging answers: metrics over a whole split, evaluation of a model, and the baselines to beat."""
