"""Free an ONNX model from the sizes of the example that it was exported with.

CenterFace's file says that its picture is 10 x 3 x 32 x 32, and lists its weights as inputs, which
keeps onnxruntime from preparing them: half of its speed. The net itself takes any size. onnxruntime
can fix sizes and not free them, so the graph's inputs lose the weights here, and its picture's size
and its outputs' shapes get free. protobuf, which onnxruntime brings, reads and writes the file; it
keeps what the schema below leaves out.
"""

from __future__ import annotations

from typing import Any

from masquerade._optional import Later
from masquerade.errors import BadInput

descriptor_pb2 = Later("google.protobuf.descriptor_pb2", extra="vision")
message_factory = Later("google.protobuf.message_factory", extra="vision")
reading = Later("google.protobuf.message", extra="vision")

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
        read = _Model.FromString(model)
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


_Model = _model_class()
