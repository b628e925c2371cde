"""Facts about each encoder family: one table per family, keyed by the `model_type` of its configuration.

All facts about families are in this file and in the tables that `FAMILIES` names. A path names a module;
`a|b` names alternatives, of which the first that exists is used. A fused map consists of equal parts:
`("attn.Wqkv", 0, 3)` is the first of three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version

from weft.errors import WeftError, did_you_mean
from weft.registry import Registry

Place = str | tuple[str, int, int]


@dataclass(frozen=True)
class Classifier:
    """The head of a family's model for sequence classification, if weft has the same function.

    logits = W·tanh(P·hidden[:, 0] + p) + b, which is a head with `pool: pooler`.

    Attributes:
        output: the path of the linear map W [C, d], from the classifier.
        pooler: the path of the classifier's copy of the encoder's pooler P, from the classifier; None if it
            reads the encoder's pooler.
    """

    output: str
    pooler: str | None = None


@dataclass(frozen=True)
class ConfigLimits:
    """How a family's configuration (config.json) states the number of blocks and the longest row.

    A key that config.json leaves out has the default of the family's configuration class.

    Attributes:
        layers: the key of the number of blocks, and its default.
        positions: the key of the size of the table of positions, and its default; None: there is no table.
        padding: the default of `pad_token_id`, if positions are numbered from the id after it on; else None.
        only_if: a key and its default; there is a table of positions only if its value is `only_if_is`. None:
            there always is.
        only_if_is: see `only_if`.
    """

    layers: tuple[str, int] = ("num_hidden_layers", 12)
    positions: tuple[str, int] | None = ("max_position_embeddings", 512)
    padding: int | None = None
    only_if: tuple[str, object] | None = None
    only_if_is: object = True


@dataclass(frozen=True)
class Anatomy:
    """One family's table.

    Attributes:
        blocks: the path of the list of blocks.
        in_block: the place of each site inside a block, from the block.
        outside: the place of each site outside the blocks, from the root.
        pre_norm: whether a norm precedes its sub-layer (instead of following the residual).
        after_first_block: the path of a module between block 0 and block 1, if the family may have one.
        disentangled: whether positions enter by DeBERTa's relative terms, so that `scores` (and a query or
            key map shared with the relative positions) is reached by `disentangled_attention_bias`.
        bias_flags: the configuration's flags for biases, and the sites that each flag gives a bias.
        from_lengths: methods whose result depends only on the length of the rows: the path of the module,
            and the method's name.
        positions: the path of the table of position embeddings. If no such module exists, positions are
            relative or rotary, and rows may have any length.
        first_position: the number of a row's first position. None: 0 or, if the table has a padding index
            (as RoBERTa's has), the number after it; smaller numbers are never used.
        classifier: how the family's model for sequence classification computes logits, if weft's heads can
            compute the same function; else None. The classifiers of ELECTRA, DeBERTa, DistilBERT and
            ModernBERT have a hidden layer that is not part of the encoder.
        limits: where the configuration has the number of blocks and the longest row, so that a run file is
            checked before the encoder is loaded; None: they are known once it is loaded.
        parts_by_head: whether query, key and value of each head follow each other in a fused map, instead of
            all queries, all keys and all values.
        repeats: whether a block may run several times in one pass (ALBERT). Its adapters run as often, with
            the same parameters, and its output is that of its last run.
        constant: the paths of modules whose parameters never train: constants, and what is not part of the
            encoder's function. Checkpoints may lack them.
        only: settings of the configuration that must have this value.
        since: the first release of transformers that has the family, within the range of pyproject.toml;
            None: all have it.
        foreign: keys of a config.json that was written for an encoder's own code, and what to do about it:
            transformers would ignore them and use its defaults.
    """

    blocks: str
    in_block: Mapping[str, Place]
    outside: Mapping[str, Place]
    pre_norm: bool = False
    after_first_block: str | None = None
    disentangled: bool = False
    bias_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    from_lengths: tuple[tuple[str, str], ...] = ()
    positions: str = "embeddings.position_embeddings"
    first_position: int | None = None
    classifier: Classifier | None = None
    limits: ConfigLimits | None = None
    parts_by_head: bool = False
    repeats: bool = False
    constant: tuple[str, ...] = ()
    only: Mapping[str, object] = field(default_factory=dict)
    since: str | None = None
    foreign: Mapping[str, str] = field(default_factory=dict)


BERT = Anatomy(
    blocks="encoder.layer",
    in_block={
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "scores": "attention.self",
        "attention_out": "attention.output.dense",
        "attention_delta": "attention.output.dropout",
        "norm_1": "attention.output.LayerNorm",
        "ffn_in": "intermediate.dense",
        "ffn_out": "output.dense",
        "ffn_delta": "output.dropout",
        "norm_2": "output.LayerNorm",
    },
    outside={
        "embeddings_norm": "embeddings.LayerNorm",
        "embeddings": "embeddings",
        "pooler": "pooler.dense",
    },
    classifier=Classifier(""),
    limits=ConfigLimits(),
)

ROBERTA = replace(BERT, classifier=Classifier("out_proj.", "dense."), limits=ConfigLimits(padding=1))

ELECTRA = replace(
    BERT,
    outside={"embeddings_norm": "embeddings.LayerNorm", "embeddings": "embeddings_project|embeddings"},
    classifier=None,
)

DISTILBERT = Anatomy(
    blocks="transformer.layer",
    in_block={
        "query": "attention.q_lin",
        "key": "attention.k_lin",
        "value": "attention.v_lin",
        "scores": "attention",
        "attention_out": "attention.out_lin",
        "attention_delta": "attention",
        "norm_1": "sa_layer_norm",
        "ffn_in": "ffn.lin1",
        "ffn_out": "ffn.lin2",
        "ffn_delta": "ffn.dropout",
        "norm_2": "output_layer_norm",
    },
    outside={"embeddings_norm": "embeddings.LayerNorm", "embeddings": "embeddings"},
    limits=ConfigLimits(layers=("n_layers", 6)),
)

MPNET = replace(
    ROBERTA,
    in_block={
        **BERT.in_block,
        "query": "attention.attn.q",
        "key": "attention.attn.k",
        "value": "attention.attn.v",
        "scores": "attention.attn",
        "attention_out": "attention.attn.o",
        "attention_delta": "attention.dropout",
        "norm_1": "attention.LayerNorm",
    },
    from_lengths=(("encoder", "relative_position_bucket"),),
)

DEBERTA_V2 = replace(
    BERT,
    in_block={
        **BERT.in_block,
        "query": "attention.self.query_proj",
        "key": "attention.self.key_proj",
        "value": "attention.self.value_proj",
    },
    outside={"embeddings_norm": "embeddings.LayerNorm", "embeddings": "embeddings"},
    after_first_block="encoder.conv",
    disentangled=True,
    classifier=None,
    from_lengths=(("encoder", "get_rel_pos"),),
    limits=ConfigLimits(layers=("num_hidden_layers", 24), only_if=("position_biased_input", True)),
)

MODERNBERT = Anatomy(
    blocks="layers",
    in_block={
        "query": ("attn.Wqkv", 0, 3),
        "key": ("attn.Wqkv", 1, 3),
        "value": ("attn.Wqkv", 2, 3),
        "scores": "attn",
        "attention_out": "attn.Wo",
        "attention_delta": "attn.out_drop",
        "norm_1": "attn_norm",
        "ffn_in": "mlp.Wi",
        "ffn_out": "mlp.Wo",
        "ffn_delta": "mlp",
        "norm_2": "mlp_norm",
    },
    outside={"embeddings_norm": "embeddings.norm", "embeddings": "embeddings", "final_norm": "final_norm"},
    pre_norm=True,
    bias_flags={
        "attention_bias": ("query", "attention_out"),
        "mlp_bias": ("ffn_in", "ffn_out"),
        "norm_bias": ("norm_1", "norm_2", "embeddings_norm", "final_norm"),
    },
    limits=ConfigLimits(layers=("num_hidden_layers", 22), positions=None),
)

FAMILIES: Registry[Anatomy] = Registry(
    "encoder family",
    {
        "bert": BERT,
        "roberta": ROBERTA,
        "xlm-roberta": ROBERTA,
        "camembert": ROBERTA,
        "electra": ELECTRA,
        "distilbert": DISTILBERT,
        "mpnet": MPNET,
        "deberta-v2": DEBERTA_V2,
        "modernbert": MODERNBERT,
        "ernie": "weft.encoder.families_like_bert:ERNIE",
        "data2vec-text": "weft.encoder.families_like_bert:DATA2VEC_TEXT",
        "rembert": "weft.encoder.families_like_bert:REMBERT",
        "roformer": "weft.encoder.families_like_bert:ROFORMER",
        "deberta": "weft.encoder.families_like_bert:DEBERTA",
        "albert": "weft.encoder.families_like_bert:ALBERT",
        "megatron-bert": "weft.encoder.families_pre_norm:MEGATRON_BERT",
        "roberta-prelayernorm": "weft.encoder.families_pre_norm:ROBERTA_PRELAYERNORM",
        "xlm-roberta-xl": "weft.encoder.families_pre_norm:XLM_ROBERTA_XL",
        "esm": "weft.encoder.families_pre_norm:ESM",
        "nomic_bert": "weft.encoder.families_rotary:NOMIC_BERT",
        "gte": "weft.encoder.families_rotary:GTE",
        "jina_embeddings_v3": "weft.encoder.families_rotary:JINA_EMBEDDINGS_V3",
        "eurobert": "weft.encoder.families_rotary:EUROBERT",
        "ultrabert": "weft.encoder.families_rotary:ULTRABERT",
    },
)
"""By the `model_type` of the family's configuration."""


def check_installed(model_type: str) -> None:
    """Refuse a family that the installed transformers does not have; imports nothing heavy.

    Args:
        model_type: the name of a known family.
    """
    since, installed = FAMILIES[model_type].since, version("transformers")
    if since is not None and _numbers(installed) < _numbers(since):
        raise WeftError(
            f"encoder family {model_type!r} needs transformers {since} or later; found {installed}\n"
            "  type: pip install --upgrade transformers"
        )


def _numbers(release: str) -> list[int]:
    """The first two numbers of a release: `5.18.0.dev0` → [5, 18]."""
    return [int(number) for number in release.split(".")[:2]]


def register_family(model_type: str, anatomy: Anatomy | str) -> None:
    """Register a family: by a table, or by the name of a family whose encoder has the same structure.

    Args:
        model_type: the `model_type` of the family's configuration.
        anatomy: a table, or the name of a known family. All facts of that family except `classifier` and
            `limits` are used: two families with equal encoders may have different models for classification
            (data2vec-text is built like BERT and classifies like RoBERTa). An export then writes the head to
            a separate file.

    Example:
        >>> from weft.encoder import register_family
        >>> register_family("splinter", "bert")
    """
    if model_type in FAMILIES:
        raise WeftError(f"encoder family {model_type!r} is known already: leave out register_family for it")
    if isinstance(anatomy, str):
        if anatomy not in FAMILIES:
            raise WeftError(f"encoder family {anatomy!r} is unknown; {did_you_mean(anatomy, FAMILIES)}")
        # equal modules may be configured differently: data2vec-text numbers its positions as RoBERTa does
        anatomy = replace(FAMILIES[anatomy], classifier=None, limits=None)
    FAMILIES.register(model_type, anatomy)
