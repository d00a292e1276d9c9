"""Who walks there? Gait re-identification on joints, before and after figures take people's places.

People of Stage, each with a style of their own, walk four times; two walks are known, two are asked
for, from other sides. What is compared is 13 joints in metres over time, as ``attack reidentify
--by gait`` has them, taken from the truth: of the people, and of the figures that replace them. One
attacker compares figures as they are and leaves out lengths of limbs, which are drawn at random, if
that serves him better; another has learned from figures of other people how people differ. Tracks
are those of a perfect finder, so that nothing is hidden by mistakes. "pace" knows nothing but how
fast somebody goes and steps, which a public walk keeps.

Asked twice: of people as they are, and of the same people who all step equally often and go equally
fast for their size, so that what is above chance there is more than pace. Five minutes a seed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import few_tracks as few
from masquerade.attacks.cues import describe_gait
from masquerade.attacks.rates import Discriminants
from masquerade.avatars import body, lift, pose
from masquerade.joints import JOINTS
from masquerade.stage import bodies, figure, plan
from masquerade.stage.bodies import BONES

PEOPLE, WALKS, SECONDS = 48, 4, 3.0
SEEDS = 1
GROUPS = 2  # of people: each is told apart by who has learned from the other
PARTS = ("shoulder", "elbow", "wrist", "hip", "knee", "ankle")
NAMES = ["nose", *(f"{side}_{part}" for part in PARTS for side in ("left", "right"))]
ROWS = [JOINTS.index(name) for name in NAMES]
LENGTHS = 24  # the first so many numbers are lengths of limbs
CAMERA = replace(few.CAMERA, eye=(0.0, -7.0, 1.8), fov_deg=55.0)
HEADINGS = (0.3, 1.4, 2.3, 4.4)


def walks(rng: np.random.Generator, *, is_equal: bool) -> dict[str, np.ndarray]:
    """(people, walks, D) of each kind."""
    model = bodies.load_body_model()
    found: dict[str, list[np.ndarray]] = {
        "people": [],
        "pace": [],
        "own": [],
        "public": [],
        "uniform": [],
    }
    for number in range(PEOPLE):
        who = plan.make_subject(number, seed=11)
        person = figure.make_person(model, model.make_body(who.shape), who.look)
        style = who.style
        if is_equal:
            hip, foot = (person.body.heads[BONES.index(f"{n}.L")] for n in ("upperleg01", "foot"))
            leg = float(np.linalg.norm(hip - foot))
            style = replace(style, tempo=1.0, amplitude=0.47 * who.shape.stature_m / leg)
        for walk in range(WALKS):
            heading = HEADINGS[walk] + float(rng.uniform(-0.2, 0.2))
            posed = few.played(
                "walk", person, seconds=SECONDS, heading=heading, style=style, rng=rng
            )
            found["people"].append(row(figure.compute_world_joints(model, person, posed)))
            found["pace"].append(pace(figure.compute_world_joints(model, person, posed)))
            (track,) = pose.mend_tracks(
                [few.track_of(person, posed, camera=CAMERA)], rate_hz=few.RATE_HZ
            )
            camera = lift.estimate_camera(
                [track],
                height=CAMERA.height,
                width=CAMERA.width,
                rate_hz=few.RATE_HZ,
                fov_deg=CAMERA.fov_deg,
            )
            for gait in ("own", "public", "uniform"):
                one = body.fit_figure(track, camera, rng, rate_hz=few.RATE_HZ, gait=gait)
                found[gait].append(row(figure.compute_world_joints(model, one.person, one.posed)))
    return {kind: np.reshape(rows, (PEOPLE, WALKS, -1)) for kind, rows in found.items()}


def row(joints: np.ndarray) -> np.ndarray:
    """(D,) of joints (T, J, 3), z up."""
    x, y, up = np.moveaxis(joints[:, ROWS].astype(float), 2, 0)
    return describe_gait(np.stack([x, -up, y], axis=2), few.RATE_HZ)


def pace(joints: np.ndarray) -> np.ndarray:
    """(2,): how fast somebody goes, and how many strides they take a second."""
    hips = joints[:, JOINTS.index("left_hip"), :2]
    way = np.linalg.norm(np.diff(hips[::5], axis=0), axis=1).sum()
    apart = joints[:, JOINTS.index("left_ankle")] - joints[:, JOINTS.index("right_ankle")]
    along = apart[:, :2] @ (hips[-1] - hips[0])
    power = np.abs(np.fft.rfft((along - along.mean()) * np.hanning(len(along)), n=1024))
    rate = np.fft.rfftfreq(1024, 1 / few.RATE_HZ)[power.argmax()]
    return np.log([way / (len(joints) / few.RATE_HZ), rate])


def rank_1(rows: np.ndarray) -> np.ndarray:
    """(people,): the share of somebody's walks whose nearest known one is theirs too."""
    ways = (slice(None), slice(LENGTHS, None)) if rows.shape[2] > LENGTHS else (slice(None),)
    found = []
    for part in ways:
        values = rows[..., part]
        values = values / (np.sqrt(values.var(axis=1).mean(axis=0)) + 1e-6)  # within a person
        known, asked = values[:, :2], values[:, 2:]
        far = np.linalg.norm(asked[:, :, None, None] - known[None, None], axis=-1)  # (P, 2, P, 2)
        nearest = far.min(axis=3).argmin(axis=2)
        found.append(np.mean(nearest == np.arange(len(rows))[:, None], axis=1))
    return np.asarray(max(found, key=np.mean))


def learned(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(people,): the same by who has learned from others (P, walks, D) how people differ."""
    whose = np.repeat(np.arange(len(others)), others.shape[1])
    metric = Discriminants().learn_metric(others.reshape(len(whose), -1), whose)
    seen = np.stack([metric(each) for each in rows])
    known, asked = seen[:, :2].mean(axis=1), seen[:, 2:]
    known = known / np.linalg.norm(known, axis=1, keepdims=True)
    nearest = (asked @ known.T).argmax(axis=2)
    return np.asarray(np.mean(nearest == np.arange(len(rows))[:, None], axis=1))


def asked(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(people,) each: rank-1 among a group, by the attacker who compares and by who has learned."""
    groups = [rows[each::GROUPS] for each in range(GROUPS)]
    pairs = zip(groups, groups[::-1], strict=True)
    return (
        np.concatenate([rank_1(each) for each in groups]),
        np.concatenate([learned(each, others) for each, others in pairs]),
    )


def main() -> None:
    """Both questions, with worlds of several seeds."""
    print(f"{PEOPLE // GROUPS} people a group, {GROUPS} groups, {SEEDS} seeds; by chance ", end="")
    print(f"{GROUPS / PEOPLE:.3f}; +- is the standard error over people")
    for is_equal in (False, True):
        print("\nequal pace" if is_equal else "people as they are")
        made = [walks(np.random.default_rng(seed), is_equal=is_equal) for seed in range(SEEDS)]
        found = {
            kind: np.mean([asked(each[kind]) for each in made], axis=0) for kind in made[0]
        }  # (2, people)
        print("| known of each walk | compares | has learned | the better less pace alone |")
        for kind, shares in found.items():
            gap = shares[np.argmax(shares.mean(axis=1))]
            gap = gap - found["pace"][np.argmax(found["pace"].mean(axis=1))]
            cells = " | ".join(_span(each) for each in (*shares, gap))
            print(f"| {kind} | {cells} |", flush=True)


def _span(shares: np.ndarray) -> str:
    return f"{shares.mean():.3f} ± {shares.std(ddof=1) / len(shares) ** 0.5:.3f}"


if __name__ == "__main__":
    main()
