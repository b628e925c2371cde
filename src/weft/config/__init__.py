"""Run files and task files: YAML that is checked as a whole, with the line of every mistake.

No torch is imported here, so that mistakes in a file are reported at once.
"""

from weft.config.presets import preset_names
from weft.config.run_file import RunFile, load_run, load_tasks

__all__ = ["RunFile", "load_run", "load_tasks", "preset_names"]
