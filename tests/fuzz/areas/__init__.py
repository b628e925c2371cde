"""The areas: which inputs are damaged, and which commands read them."""

from __future__ import annotations

from tests.fuzz.areas.bundles import build_bundle
from tests.fuzz.areas.data_files import build_data_file
from tests.fuzz.areas.encoders import build_encoder
from tests.fuzz.areas.grids import build_grid
from tests.fuzz.areas.peft_folders import build_peft_folder
from tests.fuzz.areas.requests import build_request
from tests.fuzz.areas.run_files import build_run_file
from tests.fuzz.areas.run_folders import build_run_folder
from tests.fuzz.areas.task_files import build_task_file
from tests.fuzz.areas.token_caches import build_token_cache
from tests.fuzz.areas.zips import build_zip
from tests.fuzz.case import Build

AREAS: dict[str, tuple[Build, int]] = {
    "run files": (build_run_file, 22),
    "task files": (build_task_file, 6),
    "grids": (build_grid, 8),
    "data files": (build_data_file, 20),
    "bundles": (build_bundle, 14),
    "encoders": (build_encoder, 6),
    "run folders": (build_run_folder, 8),
    "token caches": (build_token_cache, 3),
    "PEFT folders": (build_peft_folder, 7),
    "zips": (build_zip, 4),
    "requests": (build_request, 20),
}
"""Every area with the function that builds its cases, and its share of all cases."""
