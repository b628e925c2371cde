"""How the classes of transformers with heads compute their logits: one form per family and class.

All of them compute a part of this, with dropout left out:

    x = pool(hidden)                    the first token or the mean of the tokens; every token without `pools`
    x = norm(act(dense·x + bias))       not in all of them
    logits = output·x + bias
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

SEQUENCE = "AutoModelForSequenceClassification"
TOKEN = "AutoModelForTokenClassification"
QUESTION = "AutoModelForQuestionAnswering"
CHOICE = "AutoModelForMultipleChoice"


@dataclass(frozen=True)
class Form:
    """How a class computes logits from the encoder's last hidden states.

    Attributes:
        output: the path of the last linear map; `{base}` stands for the path of the encoder.
        dense: the path of the linear map before it, [d, d]; None if there is none.
        activation: the function after `dense`; the name of a setting in braces if that setting of the
            encoder names it.
        chooses: the setting of the configuration that names the function after `dense`, and that nothing else
            reads; None if the function cannot be chosen.
        pools: the poolings that the class has (`cls`, `mean`), and the settings that choose each. Empty if it
            reads every token.
        norm: the path of a LayerNorm after the function; None if there is none.
        settings: further settings of the configuration that the form needs.
    """

    output: str = "classifier"
    dense: str | None = None
    activation: str | None = None
    chooses: str | None = None
    pools: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: {"cls": {}})
    norm: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)


_EVERY_TOKEN = Form(pools={})
_EVERY_TOKEN_QA = Form("qa_outputs", pools={})

_POOLER = Form("classifier", "{base}.pooler.dense", "tanh")
"""Reads the encoder's pooler: BERT."""
_DENSE_TANH = Form("classifier.out_proj", "classifier.dense", "tanh")
"""Has a hidden layer of its own: RoBERTa."""
_CONTEXT_POOLER = Form("classifier", "pooler.dense", chooses="pooler_hidden_act")
"""DeBERTa; its configuration names the function of the hidden layer."""
_DISTILBERT = Form("classifier", "pre_classifier", "relu")
_SUMMARY = Form(
    "classifier",
    "sequence_summary.summary",
    chooses="summary_activation",
    settings={"summary_type": "first", "summary_use_proj": True, "summary_proj_to_labels": False},
)
"""ELECTRA and RoFormer, multiple choice."""
_POOLINGS = {"cls": {"classifier_pooling": "cls"}, "mean": {"classifier_pooling": "mean"}}
_MODERNBERT = Form(
    "classifier", "head.dense", chooses="classifier_activation", pools=_POOLINGS, norm="head.norm"
)
_EUROBERT = Form(
    "classifier",
    "dense",
    "gelu",
    pools={"cls": {"classifier_pooling": "bos"}, "mean": {"classifier_pooling": "mean"}},
)
_ULTRABERT = Form("classifier", pools=_POOLINGS)
_ALBERT = replace(_POOLER, dense="{base}.pooler")

FORMS: Mapping[str, Mapping[str, Form]] = {
    SEQUENCE: {
        **dict.fromkeys(("bert", "ernie", "rembert", "megatron-bert", "nomic_bert", "gte"), _POOLER),
        **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "mpnet", "data2vec-text"), _DENSE_TANH),
        **dict.fromkeys(("roberta-prelayernorm", "xlm-roberta-xl", "esm"), _DENSE_TANH),
        "jina_embeddings_v3": _DENSE_TANH,
        "albert": _ALBERT,
        "electra": replace(_DENSE_TANH, activation="gelu"),
        "roformer": replace(_DENSE_TANH, activation="{hidden_act}"),
        "deberta": _CONTEXT_POOLER,
        "deberta-v2": _CONTEXT_POOLER,
        "distilbert": _DISTILBERT,
        "modernbert": _MODERNBERT,
        "eurobert": _EUROBERT,
        "ultrabert": _ULTRABERT,
    },
    TOKEN: {"modernbert": replace(_MODERNBERT, pools={})},
    QUESTION: {"modernbert": replace(_MODERNBERT, pools={})},
    CHOICE: {
        **dict.fromkeys(("bert", "ernie", "rembert", "megatron-bert"), _POOLER),
        **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "mpnet", "data2vec-text"), _POOLER),
        **dict.fromkeys(("roberta-prelayernorm", "xlm-roberta-xl"), _POOLER),
        "albert": _ALBERT,
        "electra": _SUMMARY,
        "roformer": _SUMMARY,
        "deberta-v2": _CONTEXT_POOLER,
        "distilbert": _DISTILBERT,
        "modernbert": _MODERNBERT,
    },
}
"""By class and by the `model_type` of the family's configuration."""

_COMMON = {TOKEN: _EVERY_TOKEN, QUESTION: _EVERY_TOKEN_QA}
"""The form of every family that `FORMS` does not list."""


def form_of(auto_class: str, model_type: str) -> Form | None:
    """Return the form of a family's class; None if weft does not know it.

    Args:
        auto_class: the name of a class of transformers, such as `SEQUENCE`.
        model_type: the family.
    """
    return FORMS[auto_class].get(model_type, _COMMON.get(auto_class))
