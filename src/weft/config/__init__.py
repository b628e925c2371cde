"""The run file: encoder, method, heads, tasks, train; checked whole, every mistake with its place.

No torch is imported here: a wrong file is told in a moment.
"""

from weft.config.presets import preset_names
from weft.config.run_file import RunFile, load_run, load_tasks

__all__ = ["RunFile", "load_run", "load_tasks", "preset_names"]
