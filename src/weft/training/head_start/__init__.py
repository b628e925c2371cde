"""Heads that begin from a probe: a linear model of the frozen encoder's features, fitted before training."""
