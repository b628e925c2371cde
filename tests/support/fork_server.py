"""The fork server of the tests: a process that has imported everything, whose children start in milliseconds.

`context.Process(target=…, args=…)` runs a function of a module in such a child.
"""

from __future__ import annotations

import multiprocessing

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.support.preloaded"])
