"""Run files that ship with weft, used by name: `weft train quickstart`."""
