"""What worn sensors read: accelerometer and gyroscope from the same motion that is filmed.

An accelerometer feels gravity's reaction: at rest it reads 9.81 upward. A sensor sits on its limb
a little askew, has a small bias, jitter and a limited range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade._optional import ndimage, spatial
from masquerade.stage.bodies import BONES, Body
from masquerade.stage.skeleton import RATE_HZ, Posed

GRAVITY = 9.81
SITES = {"wrist": "lowerarm01.{}", "ankle": "lowerleg01.{}", "chest": "spine01"}
AXES = ("x", "y", "z")
_ALONG = 0.85  # of the way to the next joint
_RANGE = 16 * GRAVITY
_EDGE_S = 0.4  # at either end, cut off: smoothing knows nothing beyond


@dataclass(frozen=True, kw_only=True)
class Mount:
    """How a person wears the sensors.

    Args:
        is_left: on which arm and leg.
        askew: rotation vector of each site's sensor against its limb, in radians.
        bias: of each channel: m/s2 for three, rad/s for three.
        jitter: standard deviation of m/s2 and rad/s.
    """

    is_left: bool
    askew: tuple[tuple[float, float, float], ...]
    bias: tuple[tuple[float, ...], ...]
    jitter: tuple[float, float] = (0.4, 0.08)


def any_mount(*, is_left: bool, rng: np.random.Generator) -> Mount:
    """A way of wearing them, for someone whose left hand does things or whose right hand does.

    The strap slips round the limb, and one in ten uses the other hand.
    """
    count = len(SITES)
    slipped = rng.normal(0, 0.25, (count, 3)) + rng.uniform(-1, 1, (count, 1)) * [0.0, 0.0, 0.8]
    bias = rng.normal(0, 1, (count, 6)) * np.repeat([0.25, 0.05], 3)
    return Mount(
        is_left=is_left == bool(rng.random() < 0.9),
        askew=tuple(tuple(row) for row in slipped.tolist()),
        bias=tuple(tuple(row) for row in bias.tolist()),
    )


def channels() -> tuple[str, ...]:
    """Names, in order."""
    kinds = ("accelerometer", "gyroscope")
    return tuple(f"{site}_{kind}_{axis}" for site in SITES for kind in kinds for axis in AXES)


def read(
    posed: Posed, body: Body, mount: Mount, *, rate_hz: float, rng: np.random.Generator
) -> np.ndarray:
    """(T, channels) float32 at ``rate_hz``: m/s2 and rad/s in each sensor's own axes.

    The first and last 0.4 seconds of the motion are not read.
    """
    _check.positive(rate_hz=rate_hz)
    if rate_hz > RATE_HZ:
        raise ValueError(f"Expected rate_hz up to {RATE_HZ:g}, got rate_hz={rate_hz:g}.")
    parts = []
    for site, askew, bias in zip(SITES, mount.askew, mount.bias, strict=True):
        clean = _read_one(
            posed, body, site, mount.is_left, spatial.transform.Rotation.from_rotvec(askew)
        )
        smooth = ndimage.gaussian_filter1d(clean, 0.35 * RATE_HZ / rate_hz, axis=0)
        sampled = smooth[times(len(smooth), rate_hz=rate_hz)]
        scale = np.repeat(mount.jitter, 3)
        parts.append(sampled + np.array(bias) + rng.normal(0, 1, sampled.shape) * scale)
    values = np.concatenate(parts, axis=1)
    found: np.ndarray = np.clip(values, -_RANGE, _RANGE).astype(np.float32)
    return found


def times(count: int, *, rate_hz: float) -> np.ndarray:
    """For a motion of ``count`` rows, the row that each sample of `read` comes from."""
    edge = round(_EDGE_S * RATE_HZ)
    found: np.ndarray = np.rint(np.arange(edge, count - edge, RATE_HZ / rate_hz)).astype(int)
    return found


def _read_one(
    posed: Posed, body: Body, site: str, is_left: bool, askew: spatial.transform.Rotation
) -> np.ndarray:
    side = "L" if is_left else "R"
    bone = BONES.index(SITES[site].format(side))
    if site == "chest":
        rest = body.heads[bone] + [0.0, -0.11, 0.0]
    else:
        end = BONES.index({"wrist": "wrist.{}", "ankle": "foot.{}"}[site].format(side))
        rest = body.heads[bone] + _ALONG * (body.heads[end] - body.heads[bone])
    place = posed.carry(rest[None], body.heads, np.array([bone]))[:, 0]
    pull = np.gradient(np.gradient(place, 1 / RATE_HZ, axis=0), 1 / RATE_HZ, axis=0)
    turn = posed.turns[:, bone] @ askew.as_matrix()
    felt = np.einsum("tji,tj->ti", turn, pull + np.array([0.0, 0.0, GRAVITY]))
    steps = spatial.transform.Rotation.from_matrix(np.einsum("tji,tjk->tik", turn[:-1], turn[1:]))
    spin = steps.as_rotvec() * RATE_HZ
    return np.concatenate([felt, np.concatenate([spin, spin[-1:]])], axis=1)
