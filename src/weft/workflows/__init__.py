"""The functions behind the commands, such as `weft.evaluate`, `weft.check` and `weft.assemble`.

A command of `weft.cli` parses its arguments, calls a function of this package (or of a lower one) and prints
what it returns.
"""
