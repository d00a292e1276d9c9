"""From frames to maps of where the place is told, one after the other, each from the one before.

Where a picture shows its place, without any training: edges, corners and texture that stay.

Who compares places reads structure: lines, corners, lettering, patterns. Walls, sky and streets
without marks tell little. What changes from frame to frame (leaves, water, traffic) tells little
too, since it is not there the next time. It is looked for in a small picture: networks that
compare places see a few hundred pixels a side.

Where a picture shows its place: a random field over logits, and how much noise goes where.

The equations are those of [ma2026]. All maps are (H, W) float32.

What the maps of a film were like, told to its owner alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.errors import BadInput
from masquerade.io.atomic import write_whole
from masquerade.places.place_noise import MotionFollower
from masquerade.progress import tell_owner
from masquerade.vision.flow import OpticalFlow, warp_picture

cv2 = lazy_module("cv2", extra="vision")


_GAIN = 2.0  # logits of a standard deviation
_BLUR_PX = 7  # pixels over which evidence is gathered
_CHANGE_SCALE = 12.0  # shades a pixel may change before it counts as moving
_MIN_STRUCTURE = 1.0  # shades: a picture with less structure has none
_MIN_LOG_SPREAD = 1e-3  # of the logarithm: a picture with less spread is the same everywhere


def compute_place_logits(small: np.ndarray, moved: np.ndarray | None) -> np.ndarray:
    """(H, W) float32: high where the place is told; 0 everywhere without structure.

    Args:
        small: (H, W, 3) uint8, a frame made smaller.
        moved: the small frame before, moved to where things are now; None where there is none.
    """
    grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
    across, down = (cv2.Scharr(grey, cv2.CV_32F, *way, scale=1 / 16) for way in ((1, 0), (0, 1)))
    strength = cv2.magnitude(across, down)
    if moved is not None:
        change = cv2.absdiff(grey, cv2.cvtColor(moved, cv2.COLOR_RGB2GRAY))
        strength *= cv2.exp(change.astype(np.float32) / -_CHANGE_SCALE)
    near = cv2.blur(strength, (_BLUR_PX, _BLUR_PX))
    found = np.log1p(near)
    spread = float(found.std())
    if float(near.max()) < _MIN_STRUCTURE or spread < _MIN_LOG_SPREAD:
        return np.zeros(near.shape, np.float32)
    return np.asarray(_GAIN * (found - found.mean()) / spread, np.float32)


_MIN_DIVISOR = 1e-6  # against division by zero, as in Eq. 3
_MIN_MASK_SPREAD = 0.01  # a mask whose values spread less is the same everywhere


@dataclass(frozen=True, kw_only=True)
class DynamicField:
    """The dynamic random field of Eq. 2.

    Args:
        iterations: of the mean field.
        spatial: weight of a pixel's neighbours.
        temporal: weight of the frame before.
    """

    iterations: int = 5
    spatial: float = 2.0
    temporal: float = 2.0

    def __post_init__(self) -> None:
        _check.not_negative(iterations=self.iterations, spatial=self.spatial)
        _check.not_negative(temporal=self.temporal)

    def refine_map(self, logits: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        """Sensitivity from 0 to 1.

        Args:
            logits: of this frame, by itself.
            before: the refined map of the frame before, moved to where things are now; None at
                the beginning and after a cut.
        """
        now = _compute_sigmoid(logits)
        temporal = self.temporal if before is not None else 0.0
        for _ in range(self.iterations):
            change = self.spatial * (cv2.blur(now, (3, 3)) - now)
            if before is not None:
                change += temporal * (before - now)
            now = _compute_sigmoid(logits + change)
        return now


def compute_control_penalty(sensitivity: np.ndarray, alpha: float) -> np.ndarray:
    """The normalised control penalty, Eq. 3: at most ``alpha``, where it matters most."""
    return np.asarray(alpha * sensitivity / (float(sensitivity.max()) + _MIN_DIVISOR))


def make_class_weighing(class_weights: Sequence[float]) -> Callable[[np.ndarray], np.ndarray]:
    """What turns classes (H, W) into weights of the control penalty, float32."""
    table = np.array(class_weights, np.float32)

    def weigh_classes(classes: np.ndarray) -> np.ndarray:
        if classes.min() < 0 or classes.max() >= len(table):
            raise BadInput(
                f"Expected classes from 0 to {len(table) - 1}, as there are class_weights, got "
                f"{classes.min()} to {classes.max()}."
            )
        return np.asarray(table[classes.astype(np.intp)])

    return weigh_classes


@dataclass(frozen=True, kw_only=True)
class MaskFacts:
    """What a mask is like. It is computed from private frames, so it stays in the house.

    Args:
        coverage: the mean sensitivity of the background.
        spread: its standard deviation.
        entropy: mean bits of a pixel's yes or no; 1 where nothing was decided.
    """

    coverage: float
    spread: float
    entropy: float

    @property
    def is_constant(self) -> bool:
        """Whether it selects nothing: the noise is the same everywhere."""
        return self.spread < _MIN_MASK_SPREAD


def compute_mask_facts(
    sensitivity: np.ndarray, is_background: np.ndarray | None = None
) -> MaskFacts:
    """Of one map, on the background alone where that is known."""
    values = sensitivity if is_background is None else sensitivity[is_background]
    if values.size == 0:
        return MaskFacts(coverage=0.0, spread=0.0, entropy=0.0)
    p = np.clip(values, 1e-6, 1 - 1e-6)
    bits = -(p * np.log2(p) + (1 - p) * np.log2(1 - p))
    return MaskFacts(
        coverage=float(values.mean()), spread=float(values.std()), entropy=float(bits.mean())
    )


def _compute_sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + cv2.exp(-values)), np.float32)


CONSTANT_MASK_NOTE = "The mask is constant"


class MaskNotes:
    """Gathers facts, frame by frame; each is kept only where they are to be written.

    Args:
        sigma: of the noise where it is strongest.
        export: the private file that they are written to.
    """

    def __init__(self, sigma: float, export: str | None) -> None:
        self._sigma, self._export = sigma, export
        self._each = list[MaskFacts]()
        self._sums, self._count, self._constant = np.zeros(3), 0, 0

    def add_facts(self, facts: MaskFacts) -> None:
        """Those of the next frame."""
        self._sums += dataclasses.astuple(facts)
        self._count += 1
        self._constant += facts.is_constant
        if self._export is not None:
            self._each.append(facts)

    def report_facts(self) -> None:
        """Say what they were like, and write them to the private file if there is one."""
        if self._count == 0:
            return
        tell_owner(self.describe_masks())
        if self._export is not None:
            check_export_path(Path(self._export))
            write_whole(Path(self._export), self._as_json(), is_private=True)

    def describe_masks(self) -> str:
        """In a sentence or two; that a mask is constant comes first."""
        coverage, spread, entropy = self._sums / self._count
        figures = f"coverage {coverage:.3f}, spread {spread:.3f}, entropy {entropy:.3f} bits"
        if self._constant == self._count:
            return (
                f"{CONSTANT_MASK_NOTE}: it selects nothing, and this is noise of one strength on "
                "all of the "
                f"background. Its {figures}."
            )
        if self._constant:
            return (
                f"{CONSTANT_MASK_NOTE} in {self._constant} of {self._count} frames; its {figures}."
            )
        return f"The mask's {figures}."

    def _as_json(self) -> bytes:
        content = {
            "PRIVATE": "Computed from a private video. Do not publish this file.",
            "said": self.describe_masks(),
            "sigma": self._sigma,
            "frames": [
                {key: round(value, 5) for key, value in dataclasses.asdict(one).items()}
                | {"is_constant": one.is_constant}
                for one in self._each
            ],
        }
        return json.dumps(content).encode()


def check_export_path(path: Path) -> None:
    """Refuse a path at which no new file can stand."""
    if not path.parent.is_dir():
        raise ValueError(f"Expected the folder {path.parent} to exist; make it first.")
    if path.exists():
        raise FileExistsError(f"{path} stands there already; choose another name for export.")


_MIN_MAP_SIDE_PX = 64  # pixels of the shorter side, of a map: motion is not seen in smaller ones
_EVEN_SENSITIVITY = np.float32(0.5)  # what the field makes of logits that are all 0
_MIN_CUT_CHANGE = 40.0  # shades that a picture changes on average where the film was cut


class LogitSource(StrEnum):
    """Where logits come from."""

    EVIDENCE = "evidence"
    NETWORK = "network"
    EVEN = "even"


class PenaltyKind(StrEnum):
    """What becomes of a map before noise is scaled by it."""

    NORMALISED = "normalised"
    NONE = "none"


@dataclass(frozen=True, eq=False)
class PlaceFrame:
    """A frame and what is known about its pixels.

    Args:
        frame: (H, W, 3) uint8.
        people: (H, W) bool, who stay as they are; None for nobody.
        weight: (H, W) float32, of the control penalty; None for 1 everywhere.
    """

    frame: np.ndarray
    people: np.ndarray | None
    weight: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class MappedFrame:
    """A frame, how much noise its pixels get, and how it moved.

    Args:
        frame: (H, W, 3) uint8.
        amount: (H, W) float32, not to be written to: of sigma, for each pixel; 0 on people.
        small_steps: (h, w, 2) of whole numbers, by how many pixels of the frame what is seen at
            each pixel of the small map moved since the frame before; None where nobody knows.
        facts: what the map is like, which is private.
    """

    frame: np.ndarray
    amount: np.ndarray
    small_steps: np.ndarray | None
    facts: MaskFacts

    def resize_steps(self) -> np.ndarray | None:
        """(H, W, 2), the same for the pixels of the frame; None also where nothing moved."""
        if self.small_steps is None or not self.small_steps.any():
            return None
        size = self.frame.shape[1::-1]
        return np.asarray(cv2.resize(self.small_steps, size, interpolation=cv2.INTER_NEAREST))


@dataclass(frozen=True, kw_only=True)
class MapMaker:
    """Makes the maps of a film.

    Args:
        field: the random field.
        unary: where logits come from.
        alpha: weight of the control penalty.
        penalty: whether there is one; with none the map alone says how much noise goes where.
        reduce: maps are smaller than frames by this factor.
        follows: whether maps move with the film, as far as its motion can be seen.
    """

    field: DynamicField
    unary: LogitSource
    alpha: float
    penalty: PenaltyKind
    reduce: int
    follows: bool

    def iter_maps(self, looked: Iterable[PlaceFrame]) -> Iterator[MappedFrame]:
        """One for each frame, when it comes."""
        flow, follower = OpticalFlow(preset="fast"), None
        before: np.ndarray | None = None
        last: np.ndarray | None = None
        for one in looked:
            small = self._shrink_frame(one.frame)
            follower = follower or MotionFollower(_compute_frame_scale(one.frame, small))
            back = moved = steps = None
            if self.follows and before is not None:
                back = flow.estimate_back_flow(small, before)
                moved = warp_picture(before, back)
                if _is_cut(small, moved):
                    back = moved = last = None
                else:
                    steps = follower.compute_noise_steps(small, before, back, moved)
            if self.unary is LogitSource.EVEN:
                now = (
                    _EVEN_SENSITIVITY * np.ones(small.shape[:2], np.float32)
                    if last is None
                    else last
                )
            else:
                prior = last if back is None or last is None else warp_picture(last, back)
                now = self.field.refine_map(self._compute_logits(small, moved), prior)
            yield self._make_mapped_frame(one, now, steps)
            before, last = small, now

    def _compute_logits(self, small: np.ndarray, moved: np.ndarray | None) -> np.ndarray:
        if self.unary is LogitSource.NETWORK:
            from masquerade.networks import place_networks as place_sensitivity

            return place_sensitivity.predict_place_logits(small)
        return compute_place_logits(small, moved)

    def _make_mapped_frame(
        self, one: PlaceFrame, now: np.ndarray, steps: np.ndarray | None
    ) -> MappedFrame:
        height, width, _ = one.frame.shape
        is_even = self.unary is LogitSource.EVEN
        # [ma2026, Eq. 5]: alpha_t times p_t
        is_weighed = self.penalty is PenaltyKind.NORMALISED
        weighed = compute_control_penalty(now, self.alpha) * now if is_weighed else now
        if is_even:
            amount = np.broadcast_to(weighed[0, 0], (height, width))
        else:
            amount = cv2.resize(weighed, (width, height))
        inside = None
        if one.weight is not None:
            amount = amount * one.weight
        if one.people is not None:
            amount = np.where(one.people, np.float32(0), amount)
            is_people = cv2.resize(one.people.astype(np.uint8), now.shape[::-1])
            inside = is_people == 0
        elif is_even:
            now = now[:1, :1]  # it has the facts of all
        return MappedFrame(one.frame, amount, steps, compute_mask_facts(now, inside))

    def _shrink_frame(self, frame: np.ndarray) -> np.ndarray:
        """The frame on which the map is made."""
        height, width, _ = frame.shape
        factor = max(1, min(self.reduce, min(height, width) // _MIN_MAP_SIDE_PX))
        size = max(1, width // factor), max(1, height // factor)
        given = np.ascontiguousarray(frame)
        return np.asarray(cv2.resize(given, size, interpolation=cv2.INTER_AREA))


def _compute_frame_scale(frame: np.ndarray, small: np.ndarray) -> tuple[float, float]:
    return frame.shape[1] / small.shape[1], frame.shape[0] / small.shape[0]


def _is_cut(small: np.ndarray, moved: np.ndarray) -> bool:
    return float(cv2.absdiff(small, moved).mean()) > _MIN_CUT_CHANGE
