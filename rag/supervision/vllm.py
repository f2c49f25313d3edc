"""How vLLM is started here: from its own environment, for the hardware there is."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from rag.supervision.process import Launch

Accelerator: TypeAlias = Literal["gpu", "cpu"]

HOST = "127.0.0.1"
QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
"""Nothing is fetched and nothing is reported."""

QUIET_THREADS = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Several processes share the cores: a thread that spins while it waits takes them from the others."""

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/gpus")
_SHARED_GPU_MEMORY = "0.80"
_SHARED_CPU_MEMORY = "0.3"
"""Share of the machine's memory; vLLM's own default refuses to start when other processes use some."""


def find_accelerator(*, driver: Path = _NVIDIA_DRIVER, tool: str = "nvidia-smi") -> Accelerator:
    """Return whether an NVIDIA GPU can be used: its driver lists one, or its tool is installed."""
    try:
        listed = any(driver.iterdir())
    except OSError:
        listed = False
    return "gpu" if listed or shutil.which(tool) else "cpu"


def choose_vllm(
    *,
    accelerator: Accelerator,
    python: Path,
    model: str,
    served_name: str,
    port: int,
    context_tokens: int,
    api_key: str | None = None,
    arguments: Sequence[str] = (),
) -> Launch:
    """Return the command that serves ``model``, a folder or hub name, under ``served_name``.

    ``arguments`` come last, so that they win. The key goes by the environment, where no process list shows it.
    """
    common = (
        *(str(python), "-m", "vllm.entrypoints.openai.api_server"),
        *("--host", HOST, "--port", str(port)),
        *("--model", model, "--served-model-name", served_name),
        *("--max-model-len", str(context_tokens), "--dtype", "bfloat16"),
    )
    key = {"VLLM_API_KEY": api_key} if api_key else {}
    if accelerator == "gpu":
        flags: tuple[str, ...] = ("--gpu-memory-utilization", _SHARED_GPU_MEMORY)
        return Launch(arguments=(*common, *flags, *arguments), environment={**QUIET, **key})
    flags = ("--gpu-memory-utilization", _SHARED_CPU_MEMORY, "--enforce-eager")
    return Launch(
        arguments=(*common, *flags, *arguments),
        environment={**QUIET, **key, "VLLM_CPU_KVCACHE_SPACE": "1"},
        defaults=QUIET_THREADS,
    )
