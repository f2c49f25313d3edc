"""What check-config finds and hides."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.cli.checks import MASK, check_data_folder, masked, run_checks
from rag.core.errors import DataFolderError
from rag.settings import load_settings


def faults(**settings: object) -> list[str]:
    return [check.name for check in run_checks(load_settings(**settings)) if check.fault]


def test_secrets_are_masked_by_their_name_and_inside_of_addresses() -> None:
    settings = {
        "api_key": "sk-1",
        "options": {"password": "p", "url": "postgresql://me:pw@db/x"},
        "port": 80,
        "max_tokens": 5,
    }

    shown = masked(settings)

    assert shown == {
        "api_key": MASK, "options": {"password": MASK, "url": f"postgresql://{MASK}@db/x"}, "port": 80, "max_tokens": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://db/x?user=me&password=pw&connect_timeout=3", f"postgresql://db/x?user=me&password={MASK}&connect_timeout=3"),
        ("host=db password=pw dbname=x", f"host=db password={MASK} dbname=x"),
        (r"host=db password = 'p \'w' dbname=x", f"host=db password = {MASK} dbname=x"),
        ("http://host/v1?api_key=abc", f"http://host/v1?api_key={MASK}"),
        ("postgresql://me:p@w@db/x", f"postgresql://{MASK}@db/x"),
        ("postgresql://db/monkeys?sslmode=require", "postgresql://db/monkeys?sslmode=require"),
    ],
)  # fmt: skip
def test_secrets_among_the_parameters_of_an_address_are_masked(address: str, shown: str) -> None:
    assert masked({"options": {"url": address}}) == {"options": {"url": shown}}


def test_a_good_configuration_has_no_fault(tmp_path: Path) -> None:
    assert faults(data_dir=tmp_path, embedding={"model": "hash-384"}, rerank={"enabled": False}) == []


def test_a_data_folder_that_does_not_exist_can_be_made(tmp_path: Path) -> None:
    assert "can be made" in check_data_folder(load_settings(data_dir=tmp_path / "new" / "folder"))
    assert not (tmp_path / "new").exists()


def test_a_file_in_place_of_the_data_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(DataFolderError, match="file"):
        check_data_folder(load_settings(data_dir=tmp_path / "file"))


def test_every_fault_is_named_not_only_the_first_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert faults(
        data_dir=tmp_path / "file", store={"kind": "nonsense"}, rerank={"enabled": False}, models_dir=tmp_path
    ) == ["data folder", "store"]


def test_an_option_that_the_store_lacks_is_a_fault_that_names_it(tmp_path: Path) -> None:
    settings = load_settings(
        data_dir=tmp_path,
        store={"options": {"colour": "red"}},
        embedding={"model": "hash-384"},
        rerank={"enabled": False},
    )

    (fault,) = [check for check in run_checks(settings) if check.fault]

    assert fault.name == "store"
    assert "unknown option colour" in fault.message


def test_the_store_says_which_engine_it_is(tmp_path: Path) -> None:
    checks = {check.name: check.message for check in run_checks(load_settings(data_dir=tmp_path))}

    assert checks["store"] == "pgvector in the Postgres of the catalog"


@pytest.mark.parametrize(
    "models",
    [
        {"embedding": {"model": "nonexist"}, "rerank": {"enabled": False}},
        {"embedding": {"model": "hash-384"}, "rerank": {"model": "nonexist"}},
    ],
)
def test_a_model_that_cannot_be_had_is_a_fault(tmp_path: Path, models: dict[str, object]) -> None:
    assert faults(data_dir=tmp_path, **models) == ["models"]


def test_secrets_among_arguments_are_masked_in_either_form() -> None:
    given = ["--api-key", "one", "two", "--max-model-len", "2048", "--hf-token=hidden", "--tokenizer", "shown"]

    shown = masked({"vllm_arguments": given})["vllm_arguments"]

    assert shown == [
        "--api-key", MASK, MASK, "--max-model-len", "2048", f"--hf-token={MASK}", "--tokenizer", "shown",
    ]  # fmt: skip


def test_a_list_is_masked_by_its_own_name() -> None:
    assert masked({"api_keys": ["one", "two"]}) == {"api_keys": [MASK, MASK]}
