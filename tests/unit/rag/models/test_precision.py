from __future__ import annotations

from pathlib import Path

import pytest

from rag.models.precision import choose_precision, cpu_features
from rag.models.spec import ModelKind, Precision

EMBEDDER, RERANKER, GENERATOR = ModelKind.EMBEDDER, ModelKind.RERANKER, ModelKind.GENERATOR


@pytest.mark.parametrize("feature", ["avx512_bf16", "amx_bf16", "bf16"])
@pytest.mark.parametrize("kind", list(ModelKind))
def test_bfloat16_instructions_mean_bfloat16(kind: ModelKind, feature: str) -> None:
    assert choose_precision(kind, features=frozenset({feature, "avx2"})) is Precision.BFLOAT16


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(EMBEDDER, Precision.FLOAT32), (RERANKER, Precision.INT8), (GENERATOR, Precision.BFLOAT16)],
)
@pytest.mark.parametrize("features", [frozenset[str](), frozenset({"avx2"}), frozenset({"avx512f", "avx512_vnni"})])
def test_without_them_each_kind_has_its_fallback(
    kind: ModelKind, expected: Precision, features: frozenset[str]
) -> None:
    assert choose_precision(kind, features=features) is expected


@pytest.mark.parametrize(
    ("capability", "expected"),
    [((7, 5), Precision.FLOAT16), ((8, 0), Precision.BFLOAT16), ((9, 0), Precision.BFLOAT16)],
)
@pytest.mark.parametrize("kind", [EMBEDDER, RERANKER])
def test_a_gpu_computes_in_sixteen_bits(kind: ModelKind, capability: tuple[int, int], expected: Precision) -> None:
    assert choose_precision(kind, features=frozenset(), cuda_capability=capability) is expected


def test_float16_is_never_chosen_on_the_cpu() -> None:
    choices = {
        choose_precision(kind, features=features)
        for kind in ModelKind
        for features in (frozenset[str](), frozenset({"avx512_fp16"}), frozenset({"avx512_bf16"}))
    }

    assert Precision.FLOAT16 not in choices


def test_features_come_from_the_flags_line(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: amx_bf16\nflags\t\t: fpu avx2 avx512_bf16 sse\n")

    assert cpu_features(cpuinfo) == {"avx2", "avx512_bf16"}


def test_arm_states_its_features_under_another_name(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd i8mm bf16\n")

    assert cpu_features(cpuinfo) == {"i8mm", "bf16"}


def test_an_unreadable_cpuinfo_means_no_features(tmp_path: Path) -> None:
    assert cpu_features(tmp_path / "absent") == frozenset()


def test_int8_weights_are_stored_as_float32() -> None:
    assert Precision.INT8.stored is Precision.FLOAT32
