"""Settings for the whole suite."""

import os

import torch
from hypothesis import settings

# two workers on two cores: tiny encoders run faster on one thread each
torch.set_num_threads(1)
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# timing is no property; the machine may be busy
settings.register_profile("weft", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("weft")
