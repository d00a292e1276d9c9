"""Two files to try things on: a film of somebody who never lived, and a heart that never beat."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from masquerade.data.stage import Stage
from masquerade.doors import Answer
from masquerade.doors.data_writing import write_recording
from masquerade.errors import BadInput
from masquerade.files import atomic

FILM, HEART = "ward.mp4", "heart.csv"
_WORLD = Stage(seed=11, height=240, width=320, subjects=12, videos=12, frames=64)
_MINUTES = 240
_REST, _MOST = 62.0, 168.0  # beats a minute


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Write ward.mp4 and heart.csv, both generated, for the commands that the docs show.

    Example:
        masquerade data sample

    Args:
        out: folder for them; it is made. A file that stands there is never replaced.
    """

    out: Path = Path(".")  # noqa: PTH201 (as help shows it)

    def run(self) -> Answer:
        """Draw both."""
        film, heart = self.out / FILM, self.out / HEART
        for path in (film, heart):
            if path.exists():
                raise BadInput(f"Expected no {path}, got one: move it away, or name another --out.")
        self.out.mkdir(parents=True, exist_ok=True)
        write_recording(_WORLD[0], film)
        text = "bpm\n" + "".join(f"{beats:.0f}\n" for beats in beats_of_a_walk())
        atomic.write_whole(heart, text.encode())
        return Answer(
            data={"film": str(film), "heart": str(heart)},
            lines=[
                f"{film}: somebody of Stage; nobody in it ever lived.",
                f"{heart}: a heart rate each minute over {_MINUTES // 60} hours, made up.",
            ],
        )


def beats_of_a_walk() -> np.ndarray:
    """(minutes,) a heart at rest, on a walk and at rest again; the same each time."""
    minute = np.arange(_MINUTES)
    effort = np.clip(np.minimum(minute - 80, 170 - minute) / 15, 0, 1)
    slow = 4 * np.sin(minute / 11) + np.random.default_rng(5).normal(scale=2.5, size=_MINUTES)
    return np.asarray(np.clip(_REST + 48 * effort + slow, 40, _MOST))
