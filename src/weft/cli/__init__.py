"""The command line: commands parse their arguments, call the library and print the result.

Every command that prints a result takes `--json`: it then prints one JSON object on standard output and
nothing else there; messages go to standard error. Exit code 0: done; 1: the work failed; 2: the arguments or
a file are wrong; 130: stopped by Ctrl-C.
"""

try:
    from weft.cli.app import main, run
except KeyboardInterrupt:  # Ctrl-C in the first tenths of a second
    raise SystemExit(130) from None

__all__ = ["main", "run"]
