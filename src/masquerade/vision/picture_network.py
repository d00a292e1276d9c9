"""Networks of others that redraw pictures: ONNX or TorchScript files, fed and read.

A TorchScript file is a program: whoever runs it must trust where it comes from. An ONNX file is a
list of known operations.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade._optional import lazy_module
from masquerade.errors import BadInput
from masquerade.io import devices
from masquerade.vision.network_files import open_session

if TYPE_CHECKING:
    from masquerade._torch import torch
else:
    torch = lazy_module("torch", extra="train")

cv2 = lazy_module("cv2", extra="vision")


_ZIP = b"PK\x03\x04"  # how a TorchScript file begins
_NUMBERS = {"tensor(float)": "f4", "tensor(float16)": "f2", "tensor(uint8)": "u1"}
_Run = Callable[[np.ndarray], np.ndarray]


class AxisOrder(StrEnum):
    """In which order a network takes a picture's axes."""

    NCHW = "nchw"
    NHWC = "nhwc"


class ColourOrder(StrEnum):
    """In which order a network takes colours."""

    RGB = "rgb"
    BGR = "bgr"


@dataclass(frozen=True, kw_only=True)
class PictureConvention:
    """What a network takes and gives.

    Args:
        axes: their order.
        is_bgr: whether blue comes first.
        low: what black is in the picture that it takes.
        high: what white is.
        out_low: what black is in the picture that it gives.
        out_high: what white is.
        size: height and width of the picture; None for the frame's own, continued at its edges to
            multiples of ``multiple``.
        multiple: what both sides must be multiples of.
    """

    axes: AxisOrder
    is_bgr: bool
    low: tuple[float, ...]
    high: tuple[float, ...]
    out_low: float
    out_high: float
    size: tuple[int, int] | None
    multiple: int


@dataclass(frozen=True, kw_only=True)
class PictureNetwork:
    """A network, ready to redraw frames."""

    name: str
    run: _Run
    dtype: str
    convention: PictureConvention

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        """One frame (H, W, 3) uint8 as the network draws it, of the same size.

        Raises:
            BadInput: if what it gives is no picture of the size that it was given.
        """
        shown = self._fit_frame(np.ascontiguousarray(frame))
        given = self.run(self._make_network_input(shown))
        drawn = self._convert_levels(self._check_network_output(given, shown.shape))
        if self.convention.size is not None:
            return _stretch_frame(drawn, frame.shape[0], frame.shape[1])
        return np.ascontiguousarray(drawn[: frame.shape[0], : frame.shape[1]])

    def _fit_frame(self, frame: np.ndarray) -> np.ndarray:
        if self.convention.size is not None:
            return _stretch_frame(frame, *self.convention.size)
        below, right = (-side % self.convention.multiple for side in frame.shape[:2])
        return np.pad(frame, ((0, below), (0, right), (0, 0)), mode="edge")

    def _make_network_input(self, frame: np.ndarray) -> np.ndarray:
        """The picture as the network takes it, four axes."""
        how = self.convention
        low, high = (np.array(ends, np.float32) for ends in (how.low, how.high))
        values = low + frame * ((high - low) / np.float32(255))  # (H, W, 3)
        values = values[..., ::-1] if how.is_bgr else values
        values = values if how.axes is AxisOrder.NHWC else values.transpose(2, 0, 1)
        if self.dtype == "u1":
            values = values.round().clip(0, 255)
        return np.ascontiguousarray(values[None], dtype=self.dtype)

    def _check_network_output(self, given: Any, shape: tuple[int, ...]) -> np.ndarray:
        """What the network gave, (H, W, 3) float32 RGB."""
        wanted = (1, *shape) if self.convention.axes is AxisOrder.NHWC else (1, 3, *shape[:2])
        if not isinstance(given, np.ndarray) or given.shape != wanted:
            got = given.shape if isinstance(given, np.ndarray) else type(given).__name__
            raise BadInput(
                f"Expected {self.name} to give one picture of the size that it takes, {wanted}, "
                f"got {got}; choose another layout or size, or export the network otherwise."
            )
        if given.dtype.kind not in "uif":
            raise BadInput(f"Expected numbers from {self.name}, got dtype {given.dtype}.")
        values = given[0].astype(np.float32)
        if not np.all(np.isfinite(values)):
            raise BadInput(f"Expected finite numbers from {self.name}, got NaN or infinity.")
        values = values if self.convention.axes is AxisOrder.NHWC else values.transpose(1, 2, 0)
        return np.asarray(values[..., ::-1] if self.convention.is_bgr else values)

    def _convert_levels(self, values: np.ndarray) -> np.ndarray:
        low, high = self.convention.out_low, self.convention.out_high
        levels = (values - np.float32(low)) * np.float32(255 / (high - low))
        return np.ascontiguousarray(levels.round().clip(0, 255).astype(np.uint8))


def load_network(model: bytes, name: str, convention: PictureConvention) -> PictureNetwork:
    """A network from a file's content.

    Raises:
        BadInput: if it is neither ONNX nor TorchScript, or takes no picture.
    """
    if model.startswith(_ZIP):
        run = _torch_script(model, name)
        return PictureNetwork(name=name, run=run, dtype="f4", convention=convention)
    session = open_session(model, name)
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in _NUMBERS:
        said = ", ".join(f"{each.name} {each.type} {each.shape}" for each in inputs)
        raise BadInput(
            f"Expected {name} to take one picture, four axes of {', '.join(_NUMBERS)}, got {said}."
        )
    _check_size(inputs[0].shape, name, convention)
    wanted = inputs[0].name
    return PictureNetwork(
        name=name,
        run=lambda picture: _run_session(session, {wanted: picture}, name),
        dtype=_NUMBERS[inputs[0].type],
        convention=convention,
    )


def _run_session(session: Any, asked: dict[str, np.ndarray], name: str) -> Any:
    try:
        return session.run(None, asked)[0]
    except Exception as error:  # onnxruntime's errors have no class in common
        first = str(error).strip().splitlines()[0]
        raise BadInput(
            f"Expected {name} to take a picture of shape {next(iter(asked.values())).shape}, got: "
            f"{first} Choose another size or layout."
        ) from error


def _check_size(shape: list[int | str], name: str, convention: PictureConvention) -> None:
    """Refuse a size that a network has fixed otherwise."""
    sides = shape[2:] if convention.axes is AxisOrder.NCHW else shape[1:3]
    if convention.size is None and any(isinstance(side, int) for side in sides):
        raise BadInput(
            f"Expected height and width for {name}, which takes pictures of {sides[0]} x "
            f"{sides[1]} alone; give both."
        )
    for given, fixed in zip(convention.size or (), sides, strict=False):
        if isinstance(fixed, int) and fixed != given:
            raise BadInput(
                f"Expected the size that {name} takes, {sides[0]} x {sides[1]} (height x width), "
                f"got {convention.size}; give that, or choose another layout."
            )


def _torch_script(model: bytes, name: str) -> _Run:
    where = devices.device_name()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the format itself
            net = torch.jit.load(io.BytesIO(model), map_location=where).eval()
    except ImportError:
        raise
    except Exception as error:  # a damaged archive makes torch raise almost anything
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadInput(f"Expected a TorchScript network in {name}, got: {first}") from error

    def run_script(picture: np.ndarray) -> Any:
        with torch.inference_mode():
            try:
                given = net(torch.from_numpy(picture).to(where))
            except RuntimeError as error:
                last = str(error).strip().splitlines()[-1]
                raise BadInput(
                    f"Expected {name} to take a picture of shape {picture.shape}, got: {last} "
                    "Choose another size or layout."
                ) from error
        return given.cpu().numpy() if isinstance(given, torch.Tensor) else given

    return run_script


def _stretch_frame(frame: np.ndarray, height: int, width: int) -> np.ndarray:
    """A frame of another size; made smaller by means."""
    if frame.shape[:2] == (height, width):
        return frame
    is_smaller = height * width < frame.shape[0] * frame.shape[1]
    how = cv2.INTER_AREA if is_smaller else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(frame, (width, height), interpolation=how))
