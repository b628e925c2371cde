"""Small tokenizers of every make that encoders come with, trained in a moment on a few words."""

from __future__ import annotations

from functools import cache

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.support.tiny_run import SPECIAL, WORDS

CORPUS = [
    "the cat sees an old dog, and the dog sees the cat's red hat",
    "who wins the cup? nobody knows; the blue birds were there before 1987",
    "running runner runs unaffable, antidisestablishmentarianism (a long word)",
    "né à Zürich, naïve café — 雨が降る ☂ and 🙂",
] * 8


def _bert_like(tokenizer: Tokenizer) -> None:
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]"))],
    )


def _byte_level(add_prefix_space: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    trainer = trainers.UnigramTrainer(
        vocab_size=160, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _make(name: str) -> Tokenizer:
    if name == "wordpiece":  # BERT
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=SPECIAL, show_progress=False)
        tokenizer.train_from_iterator(CORPUS, trainer)
        _bert_like(tokenizer)
    elif name in ("roberta", "roberta-prefix"):  # two separators between the texts, offsets without spaces
        prefix = name.endswith("prefix")
        tokenizer = _byte_level(prefix)
        tokenizer.post_processor = processors.RobertaProcessing(
            ("[SEP]", tokenizer.token_to_id("[SEP]")),
            ("[CLS]", tokenizer.token_to_id("[CLS]")),
            add_prefix_space=prefix,
        )
    elif name == "modernbert":  # offsets that count the space before a word
        tokenizer = _byte_level(False)
        _bert_like(tokenizer)
    elif name == "xlm-roberta":
        tokenizer = _unigram()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
        )
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] [SEP] $B [SEP]",
            special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("[CLS]", "[SEP]")],
        )
    elif name == "words":  # of tiny_run, whose ids the tiny encoders have
        vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        _bert_like(tokenizer)
    else:  # DeBERTa-v3
        tokenizer = _unigram()
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Replace("\n", " "), normalizers.Replace("\t", " "), normalizers.NFC()]
        )
        _bert_like(tokenizer)
    return tokenizer


TOKENIZERS = ("wordpiece", "roberta", "roberta-prefix", "modernbert", "xlm-roberta", "deberta-v3")


@cache
def tiny_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """The tokenizer of this make; `words` knows the words of the tiny runs alone."""
    types = name in ("wordpiece", "deberta-v3", "words")
    return PreTrainedTokenizerFast(
        tokenizer_object=_make(name),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", *(["token_type_ids"] if types else []), "attention_mask"],
    )
