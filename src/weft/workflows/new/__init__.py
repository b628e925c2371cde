"""Drafting a run file from data files: the functions behind `weft new`."""
