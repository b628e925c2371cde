"""Tasks and their kinds."""

from weft.tasks.task import Task, check_tasks

__all__ = ["Task", "check_tasks"]
