"""swatch: six small synthetic English tasks, for trying out weft and for its tests.

A seeded generator writes every sentence from templates, so the suite needs no download and no data file.
It is not a benchmark: a score shows that a model learns, not how well it reads English. The tasks are
built so that the order and the composition of words decide; a majority guess and a bag of words stay well
below a trained encoder.

    from weft.suites import swatch

    swatch.SWATCH["entailment"].labels      # ('entailment', 'neutral', 'contradiction')
    swatch.generate("entailment", "train")  # [{'text_a': ..., 'text_b': ..., 'label': ..., ...}, ...]
    swatch.write("data/swatch")             # the same rows as TASK/train.jsonl, validation.jsonl, test.jsonl
"""

from weft.suites.swatch.generator import generate, write
from weft.suites.swatch.table import SPLITS, SWATCH, SwatchTask

__all__ = ["SPLITS", "SWATCH", "SwatchTask", "generate", "write"]
