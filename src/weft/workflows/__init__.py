"""Whole pieces of work on a run, a bundle or a model: what the commands call, and `weft.evaluate` and so on.

The commands of `weft.cli` parse their arguments, call a function of this room (or of a lower one), and print
what it returns.
"""
