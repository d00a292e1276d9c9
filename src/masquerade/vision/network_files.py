"""Files of networks: listed or the user's, opened with onnxruntime or as TFLite.

Run a small network that comes as a TFLite file: one RGB picture in, tensors out.

The file of a network: the listed asset, or one that the user brings.

Free an ONNX model from the sizes of the example that it was exported with.

CenterFace's file says that its picture is 10 x 3 x 32 x 32, and lists its weights as inputs, which
keeps onnxruntime from preparing them: half of its speed. The net itself takes any size. onnxruntime
can fix sizes and not free them, so the graph's inputs lose the weights here, and its picture's size
and its outputs' shapes get free. protobuf, which onnxruntime brings, reads and writes the file; it
keeps what the schema below leaves out.

Open an ONNX network with onnxruntime, on the chosen device and on no more cores than allowed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from masquerade._optional import lazy_module
from masquerade.errors import BadInput, MissingExtra
from masquerade.io import devices, downloads

reading = lazy_module("google.protobuf.message", extra="vision")

descriptor_pb2 = lazy_module("google.protobuf.descriptor_pb2", extra="vision")

message_factory = lazy_module("google.protobuf.message_factory", extra="vision")

onnxruntime = lazy_module("onnxruntime", extra="vision")

litert = lazy_module("ai_edge_litert.interpreter", extra="masks")


@dataclass(frozen=True)
class NetworkFile:
    """Where a network's weights are, and how a report names them.

    Args:
        asset: on the list.
        own: the user's file in its place, if there is one.
    """

    asset: str
    own: Path | None = None

    def find_path(self) -> Path:
        """The file; the asset is fetched if it is not in the cache.

        Raises:
            BadInput: if the asset is not what it should be.
            OSError: if no place that has it can be reached.
        """
        return downloads.fetch_asset(self.asset) if self.own is None else self.own

    def __str__(self) -> str:
        if self.own is not None:
            return self.own.name
        return f"{self.asset} SHA-256 {downloads.find_asset(self.asset).sha256}"


def describe_network_files(*files: NetworkFile) -> str:
    """What looked, for a report or a receipt."""
    return ", ".join(map(str, files))


# The part of the public ONNX schema that has to change: message, field, number and type.
_SCHEMA: dict[str, dict[str, tuple[int, str]]] = {
    "Model": {"ir_version": (1, "int64"), "graph": (7, "Graph")},
    "Graph": {
        "initializer": (5, "Tensor*"),
        "input": (11, "Value*"),
        "output": (12, "Value*"),
        "value_info": (13, "Value*"),
    },
    "Tensor": {"name": (8, "bytes")},
    "Value": {"name": (1, "bytes"), "type": (2, "Type")},
    "Type": {"tensor_type": (1, "TensorType")},
    "TensorType": {"shape": (2, "Shape")},
    "Shape": {"dim": (1, "Dimension*")},
    "Dimension": {"dim_value": (1, "int64"), "dim_param": (2, "bytes")},
}
_WEIGHTS_NEED_NOT_BE_INPUTS = 4  # the first version of the format that says so


def free_sizes(model: bytes) -> bytes:
    """The same net with any number, height and width of pictures.

    Raises:
        BadInput: if ``model`` is not an ONNX file with a graph and one picture as its input.
    """
    try:
        read = _model_class().FromString(model)
    except reading.DecodeError as error:
        raise BadInput(f"Expected an ONNX model, got a file that is none: {error}.") from error
    if not read.HasField("graph"):
        raise BadInput("Expected an ONNX model, got a file that is none: there is no graph.")
    read.ir_version = max(_WEIGHTS_NEED_NOT_BE_INPUTS, read.ir_version)
    _free_graph(read.graph)
    return bytes(read.SerializeToString())


def _free_graph(graph: Any) -> None:
    weights = {tensor.name for tensor in graph.initializer}
    pictures = [value for value in graph.input if value.name not in weights]
    for picture in pictures:
        sizes = picture.type.tensor_type.shape.dim
        if len(sizes) != 4:
            raise BadInput(
                "Expected an ONNX model, got a file that is none: its input has "
                f"{len(sizes)} axes and not four."
            )
        for place, name in ((0, b"N"), (2, b"H"), (3, b"W")):
            sizes[place].Clear()
            sizes[place].dim_param = name
    del graph.input[:]
    graph.input.extend(pictures)
    del graph.value_info[:]  # sizes in between, which are but remarks
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")


@cache
def _model_class() -> Any:
    """The class of a model's file, made from the schema."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="masquerade_onnx.proto", package="masquerade")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field, number=number)
            added.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            if kind.rstrip("*") in _SCHEMA:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".masquerade.{kind.rstrip('*')}"
            else:
                added.type = {"int64": kinds.TYPE_INT64, "bytes": kinds.TYPE_BYTES}[kind]
    return message_factory.GetMessages([file])["masquerade.Model"]


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
    options, providers = _make_session_options(), _list_providers()
    try:
        return onnxruntime.InferenceSession(model, options, providers=providers)
    except Exception as error:  # onnxruntime's errors have no class in common
        raise BadInput(f"Expected an ONNX network in {name}, got: {error}.") from error


def _make_session_options() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = num_threads()
    # Threads that wait in a loop take the cores from the video's decoder and encoder.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _list_providers() -> list[Any]:
    """Where the network runs, in onnxruntime's words: on the device that is chosen."""
    if devices.is_cpu():
        return [_CPU]
    if _GPU not in onnxruntime.get_available_providers():
        raise MissingExtra(
            f"Expected an onnxruntime that can use {devices.device_name()}, got one that cannot; "
            "install "
            "onnxruntime-gpu in place of onnxruntime, or leave out --device."
        )
    return [(_GPU, {"device_id": devices.device_name().partition(":")[2] or "0"}), _CPU]


def num_threads() -> int:
    """As many as there are cores, or as OMP_NUM_THREADS allows a worker among others."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min(cores, int(allowed)) if allowed.isdigit() and int(allowed) else cores


class LiteNetwork:
    """A network that takes one picture, (1, H, W, 3) float32, and gives some tensors.

    Several threads may ask it; it answers one after the other.

    Args:
        path: a .tflite file.
        outputs: the shape of each tensor that it must give, in its order.

    Raises:
        BadInput: if the file is no such network.
    """

    def __init__(self, path: Path, *, outputs: tuple[tuple[int, ...], ...]) -> None:
        if not path.is_file():
            raise BadInput(f"Expected a TFLite network at {path}; there is no such file.")
        try:
            with _silence_stderr():
                self._run = litert.Interpreter(model_path=str(path), num_threads=_num_threads())
                self._run.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise BadInput(f"Expected a TFLite network in {path.name}, got: {error}.") from error
        taken, given = self._run.get_input_details(), self._run.get_output_details()
        shapes = tuple(tuple(int(side) for side in each["shape"]) for each in given)
        picture = tuple(int(side) for side in taken[0]["shape"])
        if len(picture) != 4 or picture[3] != 3 or shapes[: len(outputs)] != outputs:
            raise BadInput(
                f"Expected a network that takes a picture and gives {outputs}, got {path.name}, "
                f"which takes {picture} and gives {shapes}."
            )
        self._name, self._input = path.name, taken[0]["index"]
        self._outputs = [each["index"] for each in given[: len(outputs)]]
        self.size: tuple[int, int] = picture[1:3]
        self._is_asked = threading.Lock()

    def __call__(self, picture: np.ndarray) -> list[np.ndarray]:
        """What the network gives for a picture (H, W, 3) of its size, without the batch's axis."""
        shown = picture[None].astype(np.float32)
        with self._is_asked:
            self._run.set_tensor(self._input, shown)
            self._run.invoke()
            found = [self._run.get_tensor(index)[0] for index in self._outputs]
        if not all(np.all(np.isfinite(each)) for each in found):
            raise BadInput(f"Expected numbers from {self._name}, got NaN or infinity.")
        return found


@contextlib.contextmanager
def _silence_stderr() -> Iterator[None]:
    """TFLite says below Python, on the error stream, how it runs; what goes wrong is raised."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _num_threads() -> int:
    """As many as there are cores, or as OMP_NUM_THREADS allows a worker among others."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    cores = os.cpu_count() or 1
    return min(cores, int(allowed)) if allowed.isdigit() and int(allowed) else cores
