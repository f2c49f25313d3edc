"""The known models, made from the installed packages and run."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

from rag.core.errors import MissingExtraError
from rag.models import MODELS, list_models, prepare
from rag.models.loading import load_cross_encoder, load_embedder
from rag.models.packages import locate
from rag.models.precision import choose_precision, cpu_features
from rag.models.spec import ModelKind, Precision

pytestmark = pytest.mark.slow

WEIGHTS_LIMIT = 45_000_000


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def _prepared(name: str, models_dir: Path) -> Path:
    try:
        locate(MODELS[name])
    except MissingExtraError as error:
        pytest.skip(str(error))
    return prepare(name, models_dir=models_dir)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        pytest.fail(f"a connection was attempted: {arguments[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def _precision(kind: ModelKind) -> Precision:
    return choose_precision(kind, features=cpu_features())


@pytest.mark.usefixtures("no_network")
def test_the_default_embedder_finds_the_answer_in_both_languages_without_a_network(models_dir: Path) -> None:
    folder = _prepared("multilingual-e5-small", models_dir)
    model = load_embedder(folder, device="cpu", precision=_precision(ModelKind.EMBEDDER))
    documents = ["Milvus was released by Zilliz in 2019.", "《红楼梦》的作者是曹雪芹。", "The tide rises twice a day."]

    queries = model.encode(["Who released Milvus?", "谁写了红楼梦？"], prompt_name="query")
    vectors = model.encode(documents, prompt_name="document")

    assert vectors.shape == (3, 384)
    assert (queries @ vectors.T).argmax(axis=1).tolist() == [0, 1]


def test_the_tokenizer_counts_as_the_original_does(models_dir: Path) -> None:
    tokenizer = json.loads((_prepared("multilingual-e5-small", models_dir) / "tokenizer.json").read_text())

    assert len(tokenizer["model"]["vocab"]) == 250_002
    assert [token["content"] for token in tokenizer["added_tokens"]] == ["<s>", "<pad>", "</s>", "<unk>"]


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("size", ["l6", "l12"])
def test_the_cross_encoders_put_the_answer_first_in_both_languages(models_dir: Path, size: str) -> None:
    folder = _prepared(f"cross-encoder-multilingual-{size}", models_dir)
    model = load_cross_encoder(folder, device="cpu", precision=_precision(ModelKind.RERANKER))
    passages = ["Milvus was released by Zilliz in 2019.", "Milvus 由 Zilliz 于 2019 年发布。", "潮水每天涨落两次。"]

    english = model.predict([("Who released Milvus?", passage) for passage in passages])
    chinese = model.predict([("谁发布了 Milvus？", passage) for passage in passages])

    assert np.argmin(english) == np.argmin(chinese) == 2
    assert english[0] > 0.5
    assert chinese[1] > 0.5


def test_the_generator_folder_has_llama_weights_and_a_chat_template(models_dir: Path) -> None:
    folder = _prepared("smollm2-135m-instruct", models_dir)
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    chat = [{"role": "user", "content": "Name a city."}]

    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    logits = model(**tokenizer("The capital of France is", return_tensors="pt")).logits

    assert prompt.endswith("<|im_start|>user\nName a city.<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.decode(logits[0, -1].argmax()) == " Paris"
    assert model.config.rope_parameters["rope_theta"] == 100_000


def test_every_prepared_model_is_listed_with_its_size(models_dir: Path) -> None:
    folder = _prepared("multilingual-e5-small", models_dir)

    status = next(row for row in list_models(models_dir=models_dir) if row.name == "multilingual-e5-small")

    assert status.prepared
    assert status.folder == folder
    assert status.bytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_carried_encoder_weights_stay_small_and_say_what_they_are() -> None:
    import rerank

    folder = Path(next(iter(rerank.__path__))) / "weights"

    assert (folder / "README.md").is_file()
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= WEIGHTS_LIMIT
