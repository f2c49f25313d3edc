"""Which vLLM command is chosen for which machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rag.supervision.process import Launch
from rag.supervision.vllm import QUIET, Accelerator, choose_vllm, find_accelerator


def choose(accelerator: Accelerator, **options: Any) -> Launch:
    given: dict[str, Any] = {
        "python": Path("/env/bin/python"), "model": "/models/smol", "served_name": "smol", "port": 8081,
        "context_tokens": 2048,
    }  # fmt: skip
    return choose_vllm(accelerator=accelerator, **{**given, **options})


def test_a_gpu_is_found_by_its_driver(tmp_path: Path) -> None:
    (tmp_path / "0000:01:00.0").mkdir()

    assert find_accelerator(driver=tmp_path, tool="no-such-tool") == "gpu"


def test_a_gpu_is_found_by_its_tool(tmp_path: Path) -> None:
    assert find_accelerator(driver=tmp_path / "none", tool="sh") == "gpu"


def test_without_driver_and_tool_it_is_the_cpu(tmp_path: Path) -> None:
    assert find_accelerator(driver=tmp_path / "none", tool="no-such-tool") == "cpu"


def test_on_the_cpu_memory_is_shared_and_nothing_is_compiled() -> None:
    launch = choose("cpu")

    command = " ".join(launch.arguments)
    assert command.startswith("/env/bin/python -m vllm.entrypoints.openai.api_server --host 127.0.0.1 --port 8081")
    assert "--model /models/smol --served-model-name smol --max-model-len 2048 --dtype bfloat16" in command
    assert command.endswith("--gpu-memory-utilization 0.3 --enforce-eager")
    assert launch.environment["VLLM_CPU_KVCACHE_SPACE"] == "1"


def test_on_a_gpu_the_flags_of_the_cpu_are_left_out() -> None:
    launch = choose("gpu")

    assert "--enforce-eager" not in launch.arguments
    assert "VLLM_CPU_KVCACHE_SPACE" not in launch.environment


def test_nothing_is_fetched_or_reported_on_either() -> None:
    for launch in (choose("cpu"), choose("gpu")):
        assert QUIET.items() <= launch.environment.items()


def test_arguments_of_the_configuration_come_last_so_that_they_win() -> None:
    assert choose("gpu", arguments=["--max-model-len", "8192"]).arguments[-2:] == ("--max-model-len", "8192")


def test_a_key_is_passed_where_no_process_list_shows_it() -> None:
    launch = choose("cpu", api_key="sk-secret")

    assert "sk-secret" not in " ".join(launch.arguments)
    assert launch.environment["VLLM_API_KEY"] == "sk-secret"
