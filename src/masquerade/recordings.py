"""Recordings of people: `Video`, `Photo`, `Signal`. Checked at the door, never changed after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput

Attributes: TypeAlias = Mapping[str, str | int | tuple[int, ...]]


def _check_pixels(letters: str, name: str, array: np.ndarray) -> None:
    if array.dtype != np.uint8:
        raise TypeError(
            f"Expected {name} to be uint8 RGB, got dtype {array.dtype}; "
            "convert to 0..255 with a public range first."
        )
    _check.shape(letters, **{name: array})
    if 0 in array.shape:
        raise BadInput(f"Expected {name} with at least one pixel, got shape {array.shape}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Video:
    """A piece of film, with what is known about it.

    Args:
        frames: (T, H, W, 3) uint8 RGB.
        rate_hz: frames a second.
        subject: who is seen, if it is one person.
        place: where.
        activity: what is done.
        view: from which camera.
        attributes: other labels, such as hair colour; a tuple gives one a frame.
        person_mask: (T, H, W) bool, True on people.
        is_decoded: whether frames come out of a video file, in which neighbouring pixels share
            colour; then less is public beside a mask. False for frames that were drawn.
        joints: (T, J, 2) pixels; missing is NaN.
        joints_3d: (T, J, 3) metres; missing is NaN.
    """

    frames: np.ndarray
    rate_hz: float
    subject: str | None = None
    place: str | None = None
    activity: str | None = None
    view: str | None = None
    attributes: Attributes = field(default_factory=dict)
    person_mask: np.ndarray | None = None
    is_decoded: bool = True
    joints: np.ndarray | None = None
    joints_3d: np.ndarray | None = None

    def __post_init__(self) -> None:
        _check_pixels("T H W 3", "frames", self.frames)
        _check.positive(rate_hz=self.rate_hz)
        if self.person_mask is not None:
            if self.person_mask.dtype != np.bool_:
                raise TypeError(f"Expected person_mask to be bool, got {self.person_mask.dtype}.")
            _check.shape("T H W", frames=self.frames[..., 0], person_mask=self.person_mask)
        for name, joints, axes in (("joints", self.joints, 2), ("joints_3d", self.joints_3d, 3)):
            if joints is None:
                continue
            _check.shape(f"T J {axes}", **{name: joints})
            if len(joints) != len(self.frames):
                raise ValueError(
                    f"Expected {name} for {len(self.frames)} frames, got {len(joints)}."
                )


@dataclass(frozen=True, kw_only=True, eq=False)
class Photo:
    """One picture, with what is known about the person in it.

    Args:
        image: (H, W, 3) uint8 RGB.
        joints: (J, 2) pixels, x right and y down; missing is NaN.
        visible: (J,) bool; comes with the joints.
        head_px: head size in pixels, the yardstick of PCKh.
        box: x, y, width, height in pixels.
        subject: who it is, if known.
        attributes: other labels.
    """

    image: np.ndarray
    joints: np.ndarray | None = None
    visible: np.ndarray | None = None
    head_px: float | None = None
    box: tuple[float, float, float, float] | None = None
    subject: str | None = None
    attributes: Attributes = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_pixels("H W 3", "image", self.image)
        if (self.joints is None) != (self.visible is None):
            raise ValueError("Expected joints and visible together, got one of them.")
        if self.joints is not None and self.visible is not None:
            _check.shape("J 2", joints=self.joints)
            _check.shape("J", joints=self.joints[:, 0], visible=self.visible)
            if self.visible.dtype != np.bool_:
                raise TypeError(f"Expected visible to be bool, got {self.visible.dtype}.")
        if self.head_px is not None:
            _check.positive(head_px=self.head_px)
        if self.box is not None:
            _check.finite(**dict(zip(("box_x", "box_y"), self.box[:2], strict=True)))
            _check.positive(**dict(zip(("box_width", "box_height"), self.box[2:], strict=True)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Signal:
    """What a worn sensor read.

    Args:
        values: (T, C) float32.
        rate_hz: samples a second.
        activity: (T,) whole numbers, one label a sample; -1 where it is not known.
        subject: who wore it.
        channels: a name each, such as "wrist_accelerometer_x"; empty if not known.
        attributes: other labels.
    """

    values: np.ndarray
    rate_hz: float
    activity: np.ndarray | None = None
    subject: str | None = None
    channels: tuple[str, ...] = ()
    attributes: Attributes = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.values.dtype != np.float32:
            raise TypeError(f"Expected values to be float32, got {self.values.dtype}.")
        _check.shape("T C", values=self.values)
        if 0 in self.values.shape:
            raise BadInput(f"Expected at least one sample, got shape {self.values.shape}.")
        if not np.all(np.isfinite(self.values)):
            raise BadInput(
                "Expected values without NaN or infinity; fill or drop the missing samples by a "
                "rule that does not depend on other people's data."
            )
        _check.positive(rate_hz=self.rate_hz)
        if self.activity is not None:
            if not np.issubdtype(self.activity.dtype, np.integer):
                raise TypeError(f"Expected activity to be integers, got {self.activity.dtype}.")
            _check.shape("T", values=self.values[:, 0], activity=self.activity)
        if self.channels and len(self.channels) != self.values.shape[1]:
            raise ValueError(
                f"Expected a name for each of {self.values.shape[1]} channels, "
                f"got {len(self.channels)}."
            )
