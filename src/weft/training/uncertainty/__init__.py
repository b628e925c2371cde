"""MT-Uncertainty sampling: a step trains on the candidates that the model is least certain of."""

from weft.training.uncertainty.chooser import Chooser, choice_cost, chooser_of
from weft.training.uncertainty.choosing import choose, scores
from weft.training.uncertainty.measures import measures
from weft.training.uncertainty.proxies import proxies

__all__ = ["Chooser", "choice_cost", "choose", "chooser_of", "measures", "proxies", "scores"]
