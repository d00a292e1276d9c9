"""Table 5: how long a release of one video of the paper's size takes [nken2025, Tab. 5]."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from masquerade import catalog
from masquerade.errors import BadInput, MissingExtra
from masquerade.io import devices
from masquerade.noise import Noise
from masquerade.recipes.video_dprp.results import TimedRow
from masquerade.recipes.video_dprp.rows import CLAIMED, Choices

SIZE = (240, 320)
FRAMES = 186  # about the mean of UCF101
_LONG = 5.0  # seconds, beyond which one time is enough


def timed(frames: np.ndarray, choices: Choices, *, where: str, is_brief: bool) -> list[TimedRow]:
    """Each mechanism on the same video, one after the other; the median of three where quick.

    The published form takes minutes on a processor; ``is_brief`` leaves it out.
    """
    frame = choices.frame(choices.most)
    wanted: list[tuple[str, str, dict[str, Any], float | None]] = [
        (
            "low_resolution, 32 x 24 cells (ISR)",
            "low_resolution",
            {"columns": 32, "rows": 24},
            19.24,
        ),
        ("appearance_free", "appearance_free", {}, 23.74),
        ("face_blur", "face_blur", {"strength": "paper"}, 26.08),
        ("video_dprp, sound form", "video_dprp", frame, None),
        ("cosine_gaussian", "cosine_gaussian", frame, None),
    ]
    if not is_brief:  # minutes on a processor
        published = frame | {"form": CLAIMED}
        wanted.append(("video_dprp as published", "video_dprp", published, 20.32))
    found = []
    with devices.on(where):
        for title, name, fields, paper in wanted:
            try:
                made = type(catalog.example("mechanisms", name))(**fields)
                made.apply(np.full((2, *frames.shape[1:]), 128, np.uint8), Noise())  # loads it
            except (MissingExtra, BadInput, OSError):
                continue
            found.append(TimedRow(name=title, seconds=_seconds(made, frames), paper=paper))
    return found


def _seconds(mechanism: Any, frames: np.ndarray) -> float:
    spent: list[float] = []
    while len(spent) < 3 and sum(spent) < _LONG:
        begun = time.perf_counter()
        mechanism.apply(frames, Noise())
        spent.append(time.perf_counter() - begun)
    return float(np.median(spent))


def enlarged(frames: np.ndarray, *, count: int) -> np.ndarray:
    """(count, 240, 320, 3): a recording at the paper's size, played to and fro.

    Example:
        >>> enlarged(np.zeros((4, 8, 8, 3), np.uint8), count=9).shape
        (9, 240, 320, 3)
    """
    high, wide = (np.arange(n) * old // n for n, old in zip(SIZE, frames.shape[1:3], strict=True))
    cycle = max(1, 2 * len(frames) - 2)
    times = np.arange(count) % cycle
    folded = np.where(times < len(frames), times, cycle - times)
    found: np.ndarray = frames[folded][:, high][:, :, wide]
    return found
