"""People who never lived: a body, a look and a way of moving, all from one number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from masquerade.data.world import act
from masquerade.people import look, shapes
from masquerade.people.bodies import Shape
from masquerade.people.shapes import BUILDS, any_shape

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
    shape = any_shape(rng)
    is_feminine = shapes.is_feminine(shape)
    worn = look.any_look(is_feminine=is_feminine, age=shape.age, rng=rng)
    style = act.any_style(rng)
    name = f"s{number:03d}"
    return Subject(name=name, shape=shape, look=worn, style=style, is_feminine=is_feminine)
