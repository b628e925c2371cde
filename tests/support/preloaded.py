"""Imported by the fork server alone, before its first child."""

from __future__ import annotations

from tests.support.everything import import_everything
from tests.support.no_flush import flush_nothing
from tests.support.no_stacks import note_no_stacks

CHILDREN = ("child", "kill_child", "bundle_writers", "warm_workers")

flush_nothing()
note_no_stacks()
import_everything(*(f"tests.support.{name}" for name in CHILDREN))
