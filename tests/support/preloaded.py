"""Imported by the fork server alone, before its first child."""

from __future__ import annotations

from tests.support.everything import import_everything

CHILDREN = ("child", "kill_child", "bundle_writers", "warm_workers")

import_everything(*(f"tests.support.{name}" for name in CHILDREN))
