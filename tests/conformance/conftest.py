"""What every conformance test may need."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo


@pytest.fixture
def many_graphs():
    """As many compiled graphs as there are methods and families: dynamo's own limit is 8 per function."""
    with torch._dynamo.config.patch(recompile_limit=10_000, accumulated_recompile_limit=10_000):
        yield
