"""People who never lived: a body, a look and a way of moving, all from one number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from masquerade.data.world import act
from masquerade.people import look
from masquerade.people.bodies import Shape

BUILDS = {"slim": (-0.9, -0.4), "medium": (0.3, 0.8), "heavy": (1.7, 2.4)}  # weights of a shape
SKIN_TONES = ("light", "medium", "dark")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One person; ``is_feminine`` is the gender that body, hair and beard present."""

    name: str  # such as "s017"
    shape: Shape
    look: look.Look
    style: act.MotionStyle
    is_feminine: bool

    @property
    def attributes(self) -> dict[str, str | int]:
        """What an onlooker could tell."""
        return {
            "skin_tone": SKIN_TONES[self.look.skin // 2],
            "gender": "feminine" if self.is_feminine else "masculine",
            "build": next(
                name for name, (low, high) in BUILDS.items() if low <= self.shape.weight <= high
            ),
            "hair": self.look.hair_style,
            "clothing": self.look.clothing,
            "handedness": "left" if self.style.is_left_handed else "right",
        }


@lru_cache(maxsize=1024)
def make(number: int, *, seed: int) -> Subject:
    """Subject ``number`` of the world ``seed``; the others do not matter."""
    rng = np.random.default_rng((seed, 1, number))
    is_feminine = bool(rng.random() < 0.5)
    age = float(rng.uniform(0, 1) ** 2)
    middle, spread = (1.64, 0.06) if is_feminine else (1.77, 0.07)
    stature = float(np.clip(rng.normal(middle, spread), 1.45, 1.98))
    shape = Shape(
        stature_m=stature,
        gender=float(rng.uniform(0, 0.12) if is_feminine else rng.uniform(0.88, 1)),
        age=age,
        muscle=float(rng.uniform(0.3, 0.8)),
        weight=float(rng.uniform(*tuple(BUILDS.values())[int(rng.integers(3))])),
        proportions=float(rng.uniform(0.3, 0.9)),
        origin=tuple((0.05 + rng.random(3)).tolist()),
    )
    worn = look.any_look(is_feminine=is_feminine, age=age, rng=rng)
    style = act.any_style(rng)
    name = f"s{number:03d}"
    return Subject(name=name, shape=shape, look=worn, style=style, is_feminine=is_feminine)
