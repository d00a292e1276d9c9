"""Who walks there? Gait re-identification on joints, before and after figures take people's places.

People of Stage, each with a style of their own, walk four times; two walks are known, two are asked
for, from other sides. What is compared is 13 joints in metres over time, as ``attack reidentify
--by gait`` has them, taken from the truth: of the people, and of the figures that replace them. The
one who asks has learned from figures too, and knows that limbs are drawn at random, so he leaves
lengths out if that serves him better. Tracks are those of a perfect finder, so that nothing is
hidden by mistakes. The row "pace" knows nothing but how fast somebody goes and steps, which a
public walk keeps. Two minutes of one core.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import few_tracks as few
from masquerade.attack.cue_gait import described
from masquerade.data.world import subjects
from masquerade.joints import JOINTS
from masquerade.people import bodies, figure
from masquerade.release.avatar import body, floor, pose

PEOPLE, WALKS, SECONDS = 24, 4, 3.0
PARTS = ("shoulder", "elbow", "wrist", "hip", "knee", "ankle")
NAMES = ["nose", *(f"{side}_{part}" for part in PARTS for side in ("left", "right"))]
ROWS = [JOINTS.index(name) for name in NAMES]
LENGTHS = 24  # the first so many numbers are lengths of limbs
CAMERA = replace(few.CAMERA, eye=(0.0, -7.0, 1.8), fov_deg=55.0)
HEADINGS = (0.3, 1.4, 2.3, 4.4)


def walks(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """(people, walks, D) of each kind."""
    model = bodies.model()
    found: dict[str, list[np.ndarray]] = {
        "people": [],
        "pace": [],
        "own": [],
        "public": [],
        "uniform": [],
    }
    for number in range(PEOPLE):
        who = subjects.make(number, seed=11)
        person = figure.figure(model, model.body(who.shape), who.look)
        for walk in range(WALKS):
            heading = HEADINGS[walk] + float(rng.uniform(-0.2, 0.2))
            posed = few.played(
                "walk", person, seconds=SECONDS, heading=heading, style=who.style, rng=rng
            )
            found["people"].append(row(figure.joints_3d(model, person, posed)))
            found["pace"].append(pace(figure.joints_3d(model, person, posed)))
            (track,) = pose.mended(
                [few.track_of(person, posed, camera=CAMERA)], rate_hz=few.RATE_HZ
            )
            camera = floor.camera_of(
                [track],
                height=CAMERA.height,
                width=CAMERA.width,
                rate_hz=few.RATE_HZ,
                fov_deg=CAMERA.fov_deg,
            )
            for gait in ("own", "public", "uniform"):
                one = body.fitted(track, camera, rng, rate_hz=few.RATE_HZ, gait=gait)
                found[gait].append(row(figure.joints_3d(model, one.person, one.posed)))
    return {kind: np.reshape(rows, (PEOPLE, WALKS, -1)) for kind, rows in found.items()}


def row(joints: np.ndarray) -> np.ndarray:
    """(D,) of joints (T, J, 3), z up."""
    x, y, up = np.moveaxis(joints[:, ROWS].astype(float), 2, 0)
    return described(np.stack([x, -up, y], axis=2), few.RATE_HZ)


def pace(joints: np.ndarray) -> np.ndarray:
    """(2,): how fast somebody goes, and how many strides they take a second."""
    hips = joints[:, JOINTS.index("left_hip"), :2]
    way = np.linalg.norm(np.diff(hips[::5], axis=0), axis=1).sum()
    apart = joints[:, JOINTS.index("left_ankle")] - joints[:, JOINTS.index("right_ankle")]
    along = apart[:, :2] @ (hips[-1] - hips[0])
    power = np.abs(np.fft.rfft((along - along.mean()) * np.hanning(len(along)), n=1024))
    rate = np.fft.rfftfreq(1024, 1 / few.RATE_HZ)[power.argmax()]
    return np.log([way / (len(joints) / few.RATE_HZ), rate])


def rank_1(rows: np.ndarray) -> tuple[float, float]:
    """The share of walks whose nearest known one is the same person's, and its standard error."""
    best = (0.0, 0.0)
    for part in (slice(None), slice(LENGTHS, None)) if rows.shape[2] > LENGTHS else (slice(None),):
        values = rows[..., part]
        inside = np.sqrt(values.var(axis=1).mean(axis=0)) + 1e-6  # within a person
        values = values / inside
        known, asked = values[:, :2], values[:, 2:]
        far = np.linalg.norm(asked[:, :, None, None] - known[None, None], axis=-1)  # (P, 2, P, 2)
        nearest = far.min(axis=3).argmin(axis=2)
        right = np.mean(nearest == np.arange(len(rows))[:, None], axis=1)
        best = max(best, (float(right.mean()), float(right.std(ddof=1) / len(rows) ** 0.5)))
    return best


if __name__ == "__main__":
    print(f"{PEOPLE} people, {2 * PEOPLE} walks asked for; by chance {1 / PEOPLE:.3f}")
    print("| joints of | rank-1, the better of two ways |")
    for kind, rows in walks(np.random.default_rng(0)).items():
        share, error = rank_1(rows)
        print(f"| {kind} | {share:.3f} ± {error:.3f} |")
