"""Imported by the fork server alone, before its first child."""

from __future__ import annotations

from tests.support.everything import import_everything
from tests.support.no_flush import flush_nothing

CHILDREN = ("child", "kill_child", "bundle_writers", "warm_workers")

flush_nothing()
import_everything(*(f"tests.support.{name}" for name in CHILDREN))
