"""Tasks and the kinds of task."""

from weft.tasks.task import Task, check_tasks

__all__ = ["Task", "check_tasks"]
