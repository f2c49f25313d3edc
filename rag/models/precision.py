"""Which number format a model computes in, by what the processor or the GPU has instructions for."""

from __future__ import annotations

from pathlib import Path

from rag.models.spec import ModelKind, Precision

CPUINFO = Path("/proc/cpuinfo")
BFLOAT16_FEATURES = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
FEATURES = BFLOAT16_FEATURES | {"avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "i8mm"}

_FIRST_BFLOAT16_CAPABILITY = (8, 0)


def cpu_features(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """Return those of the first processor's flags that matter for inference; empty where they cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return FEATURES.intersection(flags.partition(":")[2].split())


def choose_precision(
    kind: ModelKind,
    *,
    features: frozenset[str],
    cuda_capability: tuple[int, int] | None = None,
) -> Precision:
    """Return the fastest format that keeps the model's quality.

    ``features`` are the processor's flags, ``cuda_capability`` the GPU's compute capability, None for a run
    on the CPU. Without bfloat16 instructions both 16-bit formats are slower than float32, so a reranker falls
    back to int8 and an embedder to float32 (rounding its vectors to int8 arithmetic costs recall).
    """
    if cuda_capability is not None:
        return Precision.BFLOAT16 if cuda_capability >= _FIRST_BFLOAT16_CAPABILITY else Precision.FLOAT16
    if kind is ModelKind.GENERATOR or features & BFLOAT16_FEATURES:
        return Precision.BFLOAT16
    return Precision.INT8 if kind is ModelKind.RERANKER else Precision.FLOAT32
