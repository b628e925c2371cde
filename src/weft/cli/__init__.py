"""The command line: parse, call, print.

Every command that answers a question takes `--json`: one JSON object on standard output and nothing else
there; messages go to standard error. Exit 0: done; 1: the work failed; 2: the call or a file is wrong;
130: stopped by Ctrl-C.
"""

from weft.cli.app import main, run

__all__ = ["main", "run"]
