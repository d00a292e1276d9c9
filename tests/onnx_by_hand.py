"""ONNX files, byte by byte: the package that would write them is not needed to read them."""

from __future__ import annotations

Side = int | str

FLOAT, BYTE, HALF = 1, 2, 10  # numbers of a tensor, in ONNX's words


def _varint(number: int) -> bytes:
    low = []
    while number > 127:
        low.append(number & 127 | 128)
        number >>= 7
    return bytes([*low, number])


def number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def tensor(name: str, shape: tuple[Side, ...], kind: int = FLOAT) -> bytes:
    """A named tensor; a side that is a word is free."""
    dims = b"".join(
        message(1, number(1, side) if isinstance(side, int) else message(2, side.encode()))
        for side in shape
    )
    typed = message(1, number(1, kind) + message(2, dims))
    return message(1, name.encode()) + message(2, typed)


def whole_numbers(name: str, values: tuple[int, ...]) -> bytes:
    """An attribute of an operation."""
    held = b"".join(number(8, value) for value in values)
    return message(5, message(1, name.encode()) + held + number(20, 7))


def one_step(
    operation: str,
    attributes: bytes = b"",
    *,
    shape: tuple[Side, ...] = (1, 3, "H", "W"),
    gives: tuple[Side, ...] | None = None,
    kind: int = FLOAT,
) -> bytes:
    """A network that does one thing to one picture."""
    node = message(1, b"picture") + message(2, b"drawn") + message(4, operation.encode())
    graph = message(1, node + attributes) + message(2, b"by hand")
    graph += message(11, tensor("picture", shape, kind))
    graph += message(12, tensor("drawn", gives or shape, kind))
    return number(1, 8) + message(7, graph) + message(8, number(2, 13))


def soften() -> bytes:
    """Means of 5 x 5 pixels, of fewer at the edges."""
    sides = whole_numbers("kernel_shape", (5, 5)) + whole_numbers("pads", (2, 2, 2, 2))
    return one_step("AveragePool", sides)
