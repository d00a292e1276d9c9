"""From frames to maps of where the place is told, one after the other, each from the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from masquerade._optional import Later
from masquerade.release import place_evidence, place_mask
from masquerade.release.place_motion import Follower
from masquerade.sight.flow import OpticalFlow, warped

cv2 = Later("cv2", extra="vision")

_SMALLEST = 64  # pixels of the shorter side, of a map: motion is not seen in smaller ones
_EVEN = np.float32(0.5)  # what the field makes of logits that are all 0
_CUT = 40.0  # shades that a picture changes on average where the film was cut


class Unary(StrEnum):
    """Where logits come from."""

    EVIDENCE = "evidence"
    NETWORK = "network"
    EVEN = "even"


class Penalty(StrEnum):
    """What becomes of a map before noise is scaled by it."""

    NORMALISED = "normalised"
    NONE = "none"


@dataclass(frozen=True, eq=False)
class Looked:
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
    facts: place_mask.MaskFacts

    def steps(self) -> np.ndarray | None:
        """(H, W, 2), the same for the pixels of the frame; None also where nothing moved."""
        if self.small_steps is None or not self.small_steps.any():
            return None
        size = self.frame.shape[1::-1]
        return np.asarray(cv2.resize(self.small_steps, size, interpolation=cv2.INTER_NEAREST))


@dataclass(frozen=True, kw_only=True)
class Mapper:
    """Makes the maps of a film.

    Args:
        field: the random field.
        unary: where logits come from.
        alpha: weight of the control penalty.
        penalty: whether there is one; with none the map alone says how much noise goes where.
        reduce: maps are smaller than frames by this factor.
        follows: whether maps move with the film, as far as its motion can be seen.
    """

    field: place_mask.Field
    unary: Unary
    alpha: float
    penalty: Penalty
    reduce: int
    follows: bool

    def maps(self, looked: Iterable[Looked]) -> Iterator[MappedFrame]:
        """One for each frame, when it comes."""
        flow, follower = OpticalFlow(preset="fast"), None
        before: np.ndarray | None = None
        last: np.ndarray | None = None
        for one in looked:
            small = self._smaller(one.frame)
            follower = follower or Follower(_scale(one.frame, small))
            back = moved = steps = None
            if self.follows and before is not None:
                back = flow.back(small, before)
                moved = warped(before, back)
                if _is_cut(small, moved):
                    back = moved = last = None
                else:
                    steps = follower.steps(small, before, back, moved)
            if self.unary is Unary.EVEN:
                now = _EVEN * np.ones(small.shape[:2], np.float32) if last is None else last
            else:
                prior = last if back is None or last is None else warped(last, back)
                now = self.field.refined(self._logits(small, moved), prior)
            yield self._full(one, now, steps)
            before, last = small, now

    def _logits(self, small: np.ndarray, moved: np.ndarray | None) -> np.ndarray:
        if self.unary is Unary.NETWORK:
            from masquerade.nets import place_sensitivity  # needs another extra

            return place_sensitivity.logits(small)
        return place_evidence.logits(small, moved)

    def _full(self, one: Looked, now: np.ndarray, steps: np.ndarray | None) -> MappedFrame:
        height, width, _ = one.frame.shape
        is_even = self.unary is Unary.EVEN
        # [ma2026, Eq. 5]: alpha_t times p_t
        is_weighed = self.penalty is Penalty.NORMALISED
        weighed = place_mask.control(now, self.alpha) * now if is_weighed else now
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
        return MappedFrame(one.frame, amount, steps, place_mask.facts(now, inside))

    def _smaller(self, frame: np.ndarray) -> np.ndarray:
        """The frame on which the map is made."""
        height, width, _ = frame.shape
        factor = max(1, min(self.reduce, min(height, width) // _SMALLEST))
        size = max(1, width // factor), max(1, height // factor)
        given = np.ascontiguousarray(frame)
        return np.asarray(cv2.resize(given, size, interpolation=cv2.INTER_AREA))


def _scale(frame: np.ndarray, small: np.ndarray) -> tuple[float, float]:
    return frame.shape[1] / small.shape[1], frame.shape[0] / small.shape[0]


def _is_cut(small: np.ndarray, moved: np.ndarray) -> bool:
    return float(cv2.absdiff(small, moved).mean()) > _CUT
