"""What a mechanism must offer.

A mechanism is a frozen dataclass in a file of its own. Its fields are public: they are the command
line's flags and stand in the receipt. What it costs is known from the *shape* of the input alone,
before any data is read. Its docstring has a ``Guarantee:`` block, its room's table a line.

A `VideoMechanism` takes a video frame by frame, so that long ones fit into memory. One that
`TwoPass` takes it twice: it looks at all of it before the first frame is released. A `Heuristic` is
one that promises nothing, and its type says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from masquerade import _json, catalog
from masquerade.errors import BadInput
from masquerade.events import DpEvent, NoGuaranteeDpEvent
from masquerade.guarantee import Guarantee, GuaranteeKind, Relation, Unit, UnitName
from masquerade.noise import Noise
from masquerade.recordings import Photo, Signal, Video

Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = tuple[Shape, ...]
Frames: TypeAlias = Iterator[np.ndarray]
Value: TypeAlias = np.ndarray | tuple[np.ndarray, ...] | Signal | Video | Photo


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is promised for inputs of a public shape, and what to expect; known before any data.

    Args:
        guarantee: the promise.
        event: the same for an accountant to read.
        expected_error: standard deviation of the noise on each released number; None where no
            noise is added.
        visible_share: of a video's or picture's variation, what is left to see; None where nobody
            can say: for anything else, and where no noise is added.
    """

    guarantee: Guarantee
    event: DpEvent
    expected_error: float | None = None
    visible_share: float | None = None


class Mechanism(ABC):
    """Something that turns a recording into one that may be published."""

    @property
    def name(self) -> str:
        """The mechanism's name in the command line, the docs and the receipt: its file's."""
        return catalog.find_entry_name(self)

    def encode_fields(self) -> dict[str, Any]:
        """The public fields, as plain JSON values."""
        values = _json.encode_noun(self)
        return dict(values)

    @abstractmethod
    def plan(self, shape: Shape | Shapes) -> Plan:
        """What is promised for an input of this shape, without seeing it, and what to expect."""

    def guarantee(self, shape: Shape | Shapes) -> Guarantee:
        """The plan's promise."""
        return self.plan(shape).guarantee

    def event(self, shape: Shape | Shapes) -> DpEvent:
        """The plan's event."""
        return self.plan(shape).event

    def event_for(self, shape: Shape | Shapes, unit: Unit) -> DpEvent | None:
        """The event as another unit would feel it, or None where no cost can be stated."""
        plan = self.plan(shape)
        return plan.event if str(unit) == str(plan.guarantee.unit) else None

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

    def is_appearance_released(
        self, frames: Sequence[np.ndarray], shape: Shape, public_seeds: tuple[int, ...]
    ) -> bool | None:
        """Whether frames of a film of this shape look like an output; None where nobody can say.

        It is a hint for whoever checks a receipt: looks can be forged.
        """
        return None

    @abstractmethod
    def worst_case(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """Two inputs that differ in one unit and are as easy to tell apart as any."""


@runtime_checkable
class FrameByFrame(Protocol):
    """Whatever can take a video frame by frame."""

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The released frames, one for each of ``frames``."""


class FirstPass(FrameByFrame, Protocol):
    """Has looked at the whole of one video, and releases that one."""

    @property
    def receipt_counts(self) -> Mapping[str, int]:
        """What a receipt has to say in numbers, once all frames were released."""

    def write_sidecar(self, suffix: str, stream: BinaryIO) -> None:
        """A file that is published with the video, once all frames were released."""

    def close(self) -> None:
        """Forget the video."""


@runtime_checkable
class TwoPass(Protocol):
    """Whatever must look at a whole video before it can release the first frame."""

    ALONG: ClassVar[tuple[str, ...]]  # suffixes of files that are published with the video

    def first_pass(
        self, frames: Frames, shape: Shape, *, rate_hz: float, noise: Noise
    ) -> FirstPass:
        """Look at all ``frames``; the same come again when they are released."""


class VideoMechanism(Mechanism):
    """A mechanism for 8-bit RGB video, which it takes frame by frame."""

    @abstractmethod
    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The released frames, one for each of ``frames``.

        ``shape`` is (T, H, W, 3), public and known before the first frame; exactly T frames of
        (H, W, 3) uint8 come and go. Frames are read once and are not written to.
        """

    def check(self, value: Value) -> None:
        """8-bit RGB frames, at least one."""
        for array in arrays_of(value):
            if array.dtype != np.uint8 or array.ndim != 4 or array.shape[-1] != 3:
                raise BadInput(
                    f"Expected a video, (T, H, W, 3) in 8 bits, got shape {array.shape} of dtype "
                    f"{array.dtype}; {self.name} releases videos only."
                )
            if 0 in array.shape:
                raise BadInput(f"Expected at least one pixel, got shape {array.shape}.")

    def apply(self, value: Value, noise: Noise) -> Value:
        """The released video, in memory; labels of a `Video` are dropped."""
        self.check(value)
        arrays = arrays_of(value)
        if len(arrays) != 1:
            raise ValueError(f"Expected one video, got {len(arrays)} arrays; release each alone.")
        frames = arrays[0]
        if isinstance(value, Video):
            released = np.stack(list(self._at_rate(frames, value.rate_hz, noise)))
            return Video(frames=released, rate_hz=value.rate_hz)
        released = np.stack(list(self.stream(iter(frames), frames.shape, noise)))
        return (released,) if isinstance(value, tuple) else released

    def _at_rate(self, frames: np.ndarray, rate_hz: float, noise: Noise) -> Frames:
        """The released frames of a video whose rate is known, as they are released to a file."""
        if not isinstance(self, TwoPass):
            yield from self.stream(iter(frames), frames.shape, noise)
            return
        study = self.first_pass(iter(frames), frames.shape, rate_hz=rate_hz, noise=noise)
        with closing(study):
            yield from study.stream(iter(frames), frames.shape, noise)


class Heuristic(VideoMechanism):
    """Hides things without any proof: no epsilon, and a ledger refuses it."""

    @property
    @abstractmethod
    def hides(self) -> str:
        """What it tries to hide, in a few words."""

    @property
    def is_partial(self) -> bool:
        """Whether it changes only what it finds, or what a mask marks; all else stays as it is."""
        return False

    def plan(self, shape: Shape | Shapes) -> Plan:
        """No guarantee, and it says so; no accountant gives a number for its event."""
        as_video(shape)
        guarantee = Guarantee(
            kind=GuaranteeKind.HEURISTIC,
            unit=Unit(name=UnitName.VIDEO),
            relation=Relation.REPLACE_ONE,
            released=f"the video after {self.name}, which tries to hide {self.hides}",
            assumed_public=("the number of frames, their size and their rate",),
            not_protected=("anything: nothing is proved about what can be recovered",),
            numerics="no privacy noise",
            composition="none; nothing is accounted",
        )
        return Plan(guarantee=guarantee, event=NoGuaranteeDpEvent(f"{self.name} is a heuristic"))

    def event_for(self, shape: Shape | Shapes, unit: Unit) -> DpEvent | None:
        """No cost can be stated for any unit."""
        return None

    def worst_case(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """A black video and a white one."""
        return np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8)


def shapes_of(value: Value) -> Shapes:
    """The public shape of a value: one entry for each array that is released jointly."""
    return tuple(array.shape for array in arrays_of(value))


def arrays_of(value: Value) -> tuple[np.ndarray, ...]:
    """The arrays of a value, in order."""
    if isinstance(value, Signal):
        return (value.values,)
    if isinstance(value, Video):
        return (value.frames,)
    if isinstance(value, Photo):
        return (value.image,)
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


def as_video(shape: Shape | Shapes) -> Shape:
    """The one (T, H, W, 3) that a video mechanism works on.

    Example:
        >>> as_video((16, 240, 320, 3))
        (16, 240, 320, 3)
    """
    several = as_shapes(shape)
    if len(several) != 1 or len(several[0]) != 4 or several[0][-1] != 3:
        raise ValueError(
            f"Expected one video, (T, H, W, 3), got {', '.join(map(str, several))}; video "
            "mechanisms release one video at a time."
        )
    return several[0]


def first_unit(array: np.ndarray, unit: Unit) -> np.ndarray:
    """A view of the numbers that the first unit of ``array`` touches."""
    sites = unit.sites or 1
    channels = array.shape[-1] if array.ndim > 1 else 1
    match unit.name:
        case UnitName.VALUE:
            return array.reshape(-1)[:1]
        case UnitName.PIXELS:
            return array.reshape(-1, channels)[:sites]
        case UnitName.TUBE:
            return array.reshape(array.shape[0], -1, channels)[:, :sites]
        case UnitName.FRAME:
            return array[:1]
        case _:
            return array[...]
