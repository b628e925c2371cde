"""Fuzzers: damaged, hostile and odd inputs for every command that reads what somebody else wrote.

`make fuzz` runs 10,000 cases and more and prints one row of counts per area; `python -m tests.fuzz --help`
lists the options. Each case is a pure function of (seed, area, number), so one case can be run again alone:

    python -m tests.fuzz --area bundles --case 123

A case is right if weft accepts the input (exit code 0) or refuses it with a message (exit code 2, in some
commands 1). Failures are: a traceback, a crash, a hang, a lack of memory, a different exit code, output that
is no JSON or that a terminal would obey, and a refused command that changed its inputs.
"""
