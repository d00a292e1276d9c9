"""What a mechanism must offer.

A mechanism is a frozen dataclass in a file of its own. Its fields are public: they are the command
line's flags and stand in the receipt. What it costs is known from the *shape* of the input alone,
before any data is read. Its docstring has a ``Guarantee:`` block, its file an ``EXAMPLE``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np

from masquerade import _json, catalog
from masquerade.events import DpEvent
from masquerade.guarantee import Guarantee, Unit
from masquerade.noise import Noise
from masquerade.recordings import Signal, Video

Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = tuple[Shape, ...]
Value: TypeAlias = np.ndarray | tuple[np.ndarray, ...] | Signal | Video


class Mechanism(ABC):
    """Something that turns a recording into one that may be published."""

    @property
    def name(self) -> str:
        """The mechanism's name in the command line, the docs and the receipt: its file's."""
        return catalog.name_of(self)

    def fields(self) -> dict[str, Any]:
        """The public fields, as plain JSON values."""
        values = _json.encode(self)
        return dict(values)

    @abstractmethod
    def guarantee(self, shape: Shape | Shapes) -> Guarantee:
        """What is promised for an input of this shape, without seeing it."""

    @abstractmethod
    def event(self, shape: Shape | Shapes) -> DpEvent:
        """What is done to an input of this shape, for an accountant to read."""

    def event_for(self, shape: Shape | Shapes, unit: Unit) -> DpEvent | None:
        """The event as another unit would feel it, or None where no cost can be stated."""
        return self.event(shape) if str(unit) == str(self.guarantee(shape).unit) else None

    @abstractmethod
    def check(self, value: Value) -> None:
        """Refuse what `apply` would refuse, so that nothing is spent on it.

        Raises:
            BadInput: for a value that cannot be released.
            ValueError: for a value that these fields do not fit.
        """

    @abstractmethod
    def apply(self, value: Value, noise: Noise) -> Value:
        """The released value; the input is left alone."""

    @abstractmethod
    def expected_error(self, shape: Shape | Shapes) -> float:
        """Standard deviation of the noise on each released number, known before data."""

    @abstractmethod
    def worst_case(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """Two inputs that differ in one unit and are as easy to tell apart as any."""


def shapes_of(value: Value) -> Shapes:
    """The public shape of a value: one entry for each array that is released jointly."""
    return tuple(array.shape for array in arrays_of(value))


def arrays_of(value: Value) -> tuple[np.ndarray, ...]:
    """The arrays of a value, in order."""
    if isinstance(value, Signal):
        return (value.values,)
    if isinstance(value, Video):
        return (value.frames,)
    if isinstance(value, tuple):
        return tuple(np.asarray(array) for array in value)
    return (np.asarray(value),)


def as_shapes(shape: Shape | Shapes) -> Shapes:
    """One shape or several, always as several; each must have axes and no empty one.

    Example:
        >>> as_shapes((5, 3)), as_shapes(((5, 3), (4,)))
        (((5, 3),), ((5, 3), (4,)))
    """
    several: Any = shape if shape and isinstance(shape[0], tuple) else (shape,)
    for one in several:
        if not isinstance(one, tuple) or not one or any(int(size) < 1 for size in one):
            raise ValueError(f"Expected a shape with axes of size >= 1, got shape={one!r}.")
    return tuple(several)
