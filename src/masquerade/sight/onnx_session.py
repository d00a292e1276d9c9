"""Open an ONNX network with onnxruntime, on the chosen device and on no more cores than allowed."""

from __future__ import annotations

import os
from typing import Any

from masquerade._optional import Later
from masquerade.compute import device
from masquerade.errors import BadInput, MissingExtra

onnxruntime = Later("onnxruntime", extra="vision")

_CPU, _GPU = "CPUExecutionProvider", "CUDAExecutionProvider"  # as onnxruntime calls them


def open_session(model: bytes, name: str) -> Any:
    """A session of onnxruntime on a network.

    Args:
        model: the file's content.
        name: of the file, for messages.

    Raises:
        BadInput: if it is no ONNX network.
        MissingExtra: if onnxruntime cannot use the chosen device.
    """
    options, providers = _options(), _providers()
    try:
        return onnxruntime.InferenceSession(model, options, providers=providers)
    except Exception as error:  # onnxruntime's errors have no class in common
        raise BadInput(f"Expected an ONNX network in {name}, got: {error}.") from error


def _options() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = num_threads()
    # Threads that wait in a loop take the cores from the video's decoder and encoder.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _providers() -> list[Any]:
    """Where the network runs, in onnxruntime's words: on the device that is chosen."""
    if device.is_cpu():
        return [_CPU]
    if _GPU not in onnxruntime.get_available_providers():
        raise MissingExtra(
            f"Expected an onnxruntime that can use {device.chosen()}, got one that cannot; install "
            "onnxruntime-gpu in place of onnxruntime, or leave out --device."
        )
    return [(_GPU, {"device_id": device.chosen().partition(":")[2] or "0"}), _CPU]


def num_threads() -> int:
    """As many as there are cores, or as OMP_NUM_THREADS allows a worker among others."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min(cores, int(allowed)) if allowed.isdigit() and int(allowed) else cores
