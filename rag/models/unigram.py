"""The tokenizer of multilingual-e5-small, built from its vocabulary; embedder and cross-encoder share it."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from rag.models.e5_file import Vocabulary
from rag.models.folder import write_json


def build_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """Return a tokenizer that gives ``<s> A </s>`` for one text and ``<s> A </s> B </s>`` for a pair, all types 0."""
    tokenizer = Tokenizer(models.Unigram(list(vocabulary.pieces), unk_id=vocabulary.unknown))
    tokenizer.normalizer = _normalizer(vocabulary)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    start, end = vocabulary.pieces[vocabulary.start][0], vocabulary.pieces[vocabulary.end][0]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B:0 {end}:0",
        special_tokens=[(start, vocabulary.start), (end, vocabulary.end)],
    )
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in _special_tokens(vocabulary).values()])
    return tokenizer


def write_tokenizer(folder: Path, vocabulary: Vocabulary, *, max_length: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``; texts are cut at ``max_length`` tokens."""
    build_tokenizer(vocabulary).save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        **_special_tokens(vocabulary),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", config)


def _special_tokens(vocabulary: Vocabulary) -> dict[str, str]:
    start, end = vocabulary.pieces[vocabulary.start][0], vocabulary.pieces[vocabulary.end][0]
    return {
        "bos_token": start,
        "cls_token": start,
        "eos_token": end,
        "sep_token": end,
        "pad_token": vocabulary.pieces[vocabulary.padding][0],
        "unk_token": vocabulary.pieces[vocabulary.unknown][0],
    }


def _normalizer(vocabulary: Vocabulary) -> normalizers.Normalizer:
    # The vocabulary was trained on text whose control characters are gone and whose exotic blanks are
    # blanks; NFKC alone leaves both in, and they would cost an unknown token each.
    dropped = [source for source, target in vocabulary.folded.items() if not target]
    blanks = [source for source, target in vocabulary.folded.items() if target == " "]
    steps = [normalizers.Replace(_one_of(dropped), "")] if dropped else []
    steps += [normalizers.Replace(_one_of(blanks), " ")] if blanks else []
    return normalizers.Sequence(
        [*steps, normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    )


def _one_of(characters: list[str]) -> Regex:
    return Regex("[" + "".join(f"\\x{{{ord(character):x}}}" for character in characters) + "]")
