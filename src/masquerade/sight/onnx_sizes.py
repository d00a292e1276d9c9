"""Free an ONNX model from the sizes of the example that it was exported with.

CenterFace's file says that its picture is 10 x 3 x 32 x 32, and lists its weights as inputs, which
keeps onnxruntime from preparing them: half of its speed. The net itself takes any size. The file
is a protocol buffer of which four small messages have to change, so that no package is needed:
the graph's inputs lose the weights, its picture's size and its outputs' shapes get free.

Field numbers are those of the public ONNX schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from masquerade.errors import BadInput

_IR_VERSION, _GRAPH = 1, 7  # of a model
_INITIALIZER, _INPUT, _OUTPUT, _VALUE_INFO = 5, 11, 12, 13  # of a graph
_TENSOR_NAME = 8
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TENSOR_TYPE = 1
_ELEMENT_TYPE, _SHAPE = 1, 2
_DIMENSION, _DIMENSION_NAME = 1, 2
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5  # how a field is written
_WEIGHTS_NEED_NOT_BE_INPUTS = 4  # the first version of the format that says so


class _Field(NamedTuple):
    number: int
    value: bytes  # of a number, its varint
    written: bytes


def free_sizes(model: bytes) -> bytes:
    """The same net with any number, height and width of pictures.

    Raises:
        BadInput: if ``model`` is not an ONNX file with a graph and one picture as its input.
    """
    try:
        fields = list(_fields(model))
        if not any(field.number == _GRAPH for field in fields):
            raise IndexError("there is no graph")
        kept = [field for field in fields if field.number != _IR_VERSION]
        version = max(_WEIGHTS_NEED_NOT_BE_INPUTS, _version(fields))
        return _number(_IR_VERSION, version) + b"".join(
            _message(_GRAPH, _freed_graph(field.value)) if field.number == _GRAPH else field.written
            for field in kept
        )
    except IndexError as error:
        raise BadInput(f"Expected an ONNX model, got a file that is none: {error}.") from error


def _freed_graph(graph: bytes) -> bytes:
    fields = list(_fields(graph))
    weights = {_one(field.value, _TENSOR_NAME) for field in fields if field.number == _INITIALIZER}
    parts = []
    for field in fields:
        if field.number == _INPUT:
            if _one(field.value, _VALUE_NAME) not in weights:
                parts.append(_message(_INPUT, _freed_value(field.value, picture=True)))
        elif field.number == _OUTPUT:
            parts.append(_message(_OUTPUT, _freed_value(field.value, picture=False)))
        elif field.number != _VALUE_INFO:  # sizes in between, which are but remarks
            parts.append(field.written)
    return b"".join(parts)


def _freed_value(value: bytes, *, picture: bool) -> bytes:
    """A named tensor: a picture keeps its channels, another tensor loses its shape."""
    tensor = _one(_one(value, _VALUE_TYPE), _TENSOR_TYPE)
    freed = b"".join(field.written for field in _fields(tensor) if field.number == _ELEMENT_TYPE)
    if picture:
        sizes = [field for field in _fields(_one(tensor, _SHAPE)) if field.number == _DIMENSION]
        if len(sizes) != 4:
            raise IndexError(f"its input has {len(sizes)} axes and not four")
        batch, height, width = (
            _message(_DIMENSION, _message(_DIMENSION_NAME, name)) for name in (b"N", b"H", b"W")
        )
        freed += _message(_SHAPE, batch + sizes[1].written + height + width)
    named = _message(_VALUE_NAME, _one(value, _VALUE_NAME))
    return named + _message(_VALUE_TYPE, _message(_TENSOR_TYPE, freed))


def _version(fields: list[_Field]) -> int:
    found = [field.value for field in fields if field.number == _IR_VERSION]
    return _read_number(found[0], 0)[0] if found else 0


def _one(message: bytes, number: int) -> bytes:
    """The value of a field that must be there."""
    for field in _fields(message):
        if field.number == number:
            return field.value
    raise IndexError(f"field {number} is missing")


def _fields(message: bytes) -> Iterator[_Field]:
    """The fields of a message, in the order in which they are written."""
    place = 0
    while place < len(message):
        start = place
        key, place = _read_number(message, place)
        first = place
        if key & 7 == _VARINT:
            _, place = _read_number(message, place)
        elif key & 7 == _BYTES:
            length, first = _read_number(message, place)
            place = first + length
        elif key & 7 in (_EIGHT_BYTES, _FOUR_BYTES):
            place += 8 if key & 7 == _EIGHT_BYTES else 4
        else:
            raise IndexError(f"field {key >> 3} is of an unknown kind")
        if place > len(message):
            raise IndexError("it is cut off")
        yield _Field(key >> 3, message[first:place], message[start:place])


def _read_number(message: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(number)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low = []
    while number > 127:
        low.append(number & 127 | 128)
        number >>= 7
    return bytes([*low, number])
