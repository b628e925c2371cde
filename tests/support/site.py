"""The documentation site's own code, docs/weft_site, which is no package of weft."""

from __future__ import annotations

import sys

from tests.support.paths import ROOT

SITE = ROOT / "docs" / "weft_site"

sys.path.insert(0, str(SITE.parent))

from weft_site import api, commands, docstrings, links, notebooks, stage  # noqa: E402

__all__ = ["SITE", "api", "commands", "docstrings", "links", "notebooks", "stage"]
