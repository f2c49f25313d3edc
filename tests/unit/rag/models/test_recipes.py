"""The recipes on a model of a few kilobytes: what they write, the library loads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

import torch
from safetensors.torch import load_file, save_file

from rag.core.errors import ConfigurationError
from rag.models.cross_encoder import write_cross_encoder
from rag.models.e5 import write_embedder
from rag.models.loading import load_cross_encoder, load_embedder
from rag.models.spec import Precision


def _quiet(message: str) -> None:
    assert message


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


@pytest.fixture
def encoder(tmp_path: Path, packed: Path) -> dict[str, Path]:
    """Sources of a cross-encoder with random weights over the packed model's word embeddings."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=1,
        pad_token_id=1,
    )
    weights = BertForSequenceClassification(config).state_dict()
    weights.pop("bert.embeddings.word_embeddings.weight")
    weights.pop("bert.embeddings.position_ids", None)
    save_file({name: tensor.half() for name, tensor in weights.items()}, tmp_path / "encoder.safetensors")
    (tmp_path / "encoder.json").write_text(json.dumps(config.to_dict()))
    return {"packed": packed, "encoder": tmp_path / "encoder.safetensors", "config": tmp_path / "encoder.json"}


def test_the_embedder_gives_unit_vectors_and_tells_queries_from_documents(packed: Path, target: Path) -> None:
    write_embedder(target, sources={"packed": packed}, precision=Precision.FLOAT32, report=_quiet)

    model = load_embedder(target, device="cpu", precision=Precision.FLOAT32)
    query = model.encode(["the cat"], prompt_name="query")
    document = model.encode(["the cat"], prompt_name="document")

    assert query.shape == (1, 32)
    assert np.linalg.norm(query) == pytest.approx(1, abs=1e-5)
    assert not np.allclose(query, document)
    assert model.max_seq_length == 512


def test_the_stored_type_follows_the_precision(packed: Path, target: Path) -> None:
    write_embedder(target, sources={"packed": packed}, precision=Precision.BFLOAT16, report=_quiet)

    assert {tensor.dtype for tensor in load_file(target / "model.safetensors").values()} == {torch.bfloat16}


def test_mean_pooling_ignores_padding(packed: Path, target: Path) -> None:
    write_embedder(target, sources={"packed": packed}, precision=Precision.FLOAT32, report=_quiet)
    model = load_embedder(target, device="cpu", precision=Precision.FLOAT32)

    alone = model.encode(["cat"])
    batched = model.encode(["cat", "the cats the cats the cats"])

    assert np.allclose(alone[0], batched[0], atol=1e-5)


@pytest.mark.parametrize("precision", [Precision.FLOAT32, Precision.BFLOAT16, Precision.INT8])
def test_the_cross_encoder_scores_pairs_in_every_precision(
    encoder: dict[str, Path], target: Path, precision: Precision
) -> None:
    write_cross_encoder(target, sources=encoder, precision=precision, report=_quiet)

    model = load_cross_encoder(target, device="cpu", precision=precision)
    scores = model.predict([("the cat", "cats"), ("猫", "the cat")])

    assert scores.shape == (2,)
    assert bool(((scores > 0) & (scores < 1)).all())


def test_the_cross_encoder_takes_its_word_embeddings_from_the_packed_file(
    encoder: dict[str, Path], target: Path, tmp_path: Path
) -> None:
    embedder = tmp_path / "embedder"
    embedder.mkdir()
    write_embedder(embedder, sources={"packed": encoder["packed"]}, precision=Precision.FLOAT32, report=_quiet)
    write_cross_encoder(target, sources=encoder, precision=Precision.FLOAT32, report=_quiet)

    theirs = load_file(embedder / "model.safetensors")["embeddings.word_embeddings.weight"]
    ours = load_file(target / "model.safetensors")["bert.embeddings.word_embeddings.weight"]

    assert torch.equal(ours, theirs)


def test_a_long_pair_is_cut_at_384_tokens(encoder: dict[str, Path], target: Path) -> None:
    write_cross_encoder(target, sources=encoder, precision=Precision.FLOAT32, report=_quiet)
    model = load_cross_encoder(target, device="cpu", precision=Precision.FLOAT32)

    encoded = model.tokenizer("the cat", "cats " * 1000, truncation=True)

    assert len(encoded["input_ids"]) == 384


def test_a_folder_without_a_model_is_a_configuration_error(target: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        load_embedder(target, device="cpu", precision=Precision.FLOAT32)
