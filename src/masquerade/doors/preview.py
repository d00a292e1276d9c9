"""What a release would promise and cost, from public knowledge alone; nothing is written."""

from __future__ import annotations

import math
import time
from functools import lru_cache
from pathlib import Path

import numpy as np

from masquerade import _json
from masquerade.compute import device
from masquerade.doors import expecting
from masquerade.doors.answer import Answer
from masquerade.doors.releasing import Options
from masquerade.guarantee import UnitName
from masquerade.mechanism import Mechanism, Shapes, Streams
from masquerade.noise import Noise
from masquerade.wording import PERSON, explain

_FRAMES = 16  # of grey, to find out how fast a mechanism is


def preview(
    source: Path,
    shapes: Shapes,
    mechanism: Mechanism,
    *,
    noise: Noise,
    options: Options,
    person_height: int | None,
) -> Answer:
    """Guarantee, what to expect, time, and how much of a person one unit covers."""
    guarantee = mechanism.guarantee(shapes).as_released(
        with_sound=options.saving.keep_sound, is_rehearsal=noise.is_rehearsal
    )
    error = mechanism.expected_error(shapes)
    with device.on(options.device):
        seconds = expected_seconds(mechanism, shapes)
    sight = expecting.expected(mechanism, source, shapes)
    first, *others = explain(guarantee)
    lines = [first, *expecting.said(sight)]
    if sight is expecting.Sight.GREY and not options.accept_grey and not noise.is_rehearsal:
        lines.append("A release would be refused: nothing is to be seen in it. Give --yes for it.")
    lines += others
    if error is not None:
        lines.append(f"Expected error of each number: {error:.7g} (standard deviation).")
    lines.append(f"Expected time: about {max(seconds, 0.1):.1f} s.")
    data = {
        "guarantee": _json.encode(guarantee),
        "expect": sight,
        "expected_error": error,
        "expected_seconds": seconds,
    }
    if person_height is not None:
        data["person"], said = _person(person_height, shapes, mechanism)
        lines += said
    return Answer(data=data, lines=lines)


def _person(height: int, shapes: Shapes, mechanism: Mechanism) -> tuple[dict[str, int], list[str]]:
    """How many sites someone covers, beside what the unit covers."""
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise ValueError("Expected a video for --person-height, got numbers of another shape.")
    frames = shapes[0][0]
    sites = math.ceil(PERSON * height**2)
    unit = mechanism.guarantee(shapes).unit
    lines = [
        f"A standing person {height} pixels tall covers about {sites} sites of a frame "
        f"({PERSON} of the height squared), {sites * frames} if seen in all {frames} frames."
    ]
    if unit.name in (UnitName.PIXELS, UnitName.TUBE):
        covered = (unit.sites or 1) / (sites * (frames if unit.name is UnitName.PIXELS else 1))
        lines.append(f"{unit} is {min(covered, 1):.2g} of that person.")
    return {"height": height, "sites_per_frame": sites, "sites": sites * frames}, lines


@lru_cache(maxsize=64)
def _pace(mechanism: Mechanism, height: int, width: int) -> float:
    """Seconds a frame, measured on grey frames: nothing private is involved."""
    assert isinstance(mechanism, Streams)
    grey = np.full((_FRAMES, height, width, 3), 128, np.uint8)
    list(mechanism.stream(iter(grey[:1]), (1, *grey.shape[1:]), Noise()))
    start = time.perf_counter()
    list(mechanism.stream(iter(grey), grey.shape, Noise()))
    return (time.perf_counter() - start) / _FRAMES


def expected_seconds(mechanism: Mechanism, shapes: Shapes) -> float:
    """About how long a release takes, reading and writing of videos included."""
    if isinstance(mechanism, Streams) and len(shapes[0]) == 4:
        frames, height, width, _ = shapes[0]
        codec = 25e-9 * height * width  # two passes of decoding, one of encoding
        return frames * (_pace(mechanism, height, width) + codec)
    return sum(map(math.prod, shapes)) * 1e-7
