"""How well figures follow people: joints against truth on Stage, agreement on real films, time.

Stage: twelve activities, one film each, the camera's angle of view given and nothing else. Errors
are of joints about the hips, in the axes of the picture, at one scale for a film (a picture has no
scale). PCKh: share of joints within half a head of the truth, of what was lifted from the picture
and of the figure, whose own stature is drawn at random. Jitter: mean acceleration of joints.
Real films: how far bones are from the finder's joints, in heads, before a stature is drawn.
Times are CPU milliseconds of one core for a frame with one person. Four minutes.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

import cv2
import numpy as np

from masquerade.avatars import body, lift, pose, render
from masquerade.avatars.body import StandIn
from masquerade.datasets.stage import Stage
from masquerade.io import downloads
from masquerade.io.video import read
from masquerade.joints import JOINTS
from masquerade.stage import bodies, figure
from masquerade.stage.skeleton import POINTS
from masquerade.vision.tracks import PersonTrack

NAMES = [name for name in POINTS if name in JOINTS]
OURS, THEIRS = [POINTS.index(name) for name in NAMES], [JOINTS.index(name) for name in NAMES]
HIPS = [NAMES.index("left_hip"), NAMES.index("right_hip")]
FRAMES, RATE_HZ, SIZE = 40, 20.0, 360
REAL = ("sports2d_demo", "pose2sim_single_cam01", "pose2sim_single_cam02", "pose2sim_multi_cam01")
REAL_FRAMES, REAL_HZ = 60, 60.0


@dataclass
class Clock:
    """CPU seconds by step."""

    seconds: dict[str, float] = field(default_factory=dict)

    def of(self, step: str, work):
        """Do some work and note how long it took."""
        begun = time.process_time()
        found = work()
        self.seconds[step] = self.seconds.get(step, 0.0) + time.process_time() - begun
        return found


def about_hips(points: np.ndarray) -> np.ndarray:
    """(T, J, 3) with the middle of the hips at the origin."""
    return points - points[:, HIPS].mean(axis=1, keepdims=True)


def error_mm(found: np.ndarray, truth: np.ndarray) -> float:
    """Mean distance of joints, the first made as large as the second."""
    scale = (found * truth).sum() / (found * found).sum()
    return float(np.linalg.norm(found * scale - truth, axis=2).mean() * 1000)


def jitter(points: np.ndarray, rate_hz: float) -> float:
    """Mean acceleration in m/s2."""
    return float(np.linalg.norm(np.diff(points, 2, axis=0), axis=2).mean() * rate_hz**2)


def shown(points: np.ndarray, camera) -> np.ndarray:
    """Pixels of points that the camera sees so, (..., 3)."""
    middle = np.array([camera.width / 2, camera.height / 2])
    return points[..., :2] / points[..., 2:] * camera.focal_px + middle


def joints_of(one: StandIn) -> np.ndarray:
    """(T, J, 3) of a figure, in the world."""
    return figure.compute_world_joints(bodies.load_body_model(), one.person, one.posed)


def on_stage() -> None:
    """The table of Stage."""
    print(
        "| activity | people | error, lifted | error, figure | PCKh, lifted | PCKh, figure |",
        end="",
    )
    print(" jitter, truth | lifted | figure |")
    stage = Stage(
        seed=7, videos=48, frames=FRAMES, height=SIZE, width=SIZE, rate_hz=RATE_HZ, bystanders=0.0
    )
    rng, rows = np.random.default_rng(0), []
    for number in range(len(stage.activities)):
        film, name = stage.make_staged_film(number), stage.labels[number].activity
        tracks = pose.track_people(film.frames, rate_hz=RATE_HZ)
        if not tracks:
            print(f"| {name} | 0 | | | | | | | |")
            continue
        camera = lift.estimate_camera(
            tracks, height=SIZE, width=SIZE, rate_hz=RATE_HZ, fov_deg=film.camera.fov_deg
        )
        middle = film.joints[0].mean(axis=(0, 1))
        track = min(
            tracks, key=lambda one: np.linalg.norm(one.joints[..., :2].mean(axis=(0, 1)) - middle)
        )
        rows.append(compared(track, camera, film, rng))
        print(f"| {name} | {len(tracks)} | " + " | ".join(f"{v:.2f}" for v in rows[-1]) + " |")
    mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / len(rows) ** 0.5
    each = " | ".join(f"{m:.2f} ± {s:.2f}" for m, s in zip(mean, spread, strict=True))
    print(f"| mean of {len(rows)} | | {each} |")


def compared(track: PersonTrack, camera, film, rng: np.random.Generator) -> list[float]:
    """One row: errors in mm, PCKh, jitter."""
    frames = slice(track.start, track.stop_frame)
    head = film.head_box[0, frames, 2:].max(axis=1).mean()
    truth = (
        film.joints_3d[0, frames][:, THEIRS] - np.asarray(film.camera.eye)
    ) @ film.camera.axes.T
    lifted = lift.lift_track(track, camera, rate_hz=RATE_HZ)[:, OURS]
    joints = joints_of(body.fit_figure(track, camera, rng, rate_hz=RATE_HZ))[:, THEIRS]
    seen = (joints - np.asarray(camera.eye)) @ camera.axes.T
    wanted = film.joints[0, frames][:, THEIRS]
    beside = [np.linalg.norm(shown(each, camera) - wanted, axis=2) for each in (lifted, seen)]
    flat = [about_hips(each) for each in (truth, lifted, seen)]
    return [
        error_mm(flat[1], flat[0]),
        error_mm(flat[2], flat[0]),
        *(float(np.mean(each < head / 2)) for each in beside),
        *(jitter(each, RATE_HZ) for each in flat),
    ]


def real_film(name: str) -> np.ndarray:
    """A stretch of a film, 720 lines high."""
    frames = read.read_segment(downloads.fetch_asset(name), 30, 30 + REAL_FRAMES)
    width = round(frames.shape[2] * 720 / frames.shape[1] / 2) * 2
    return np.stack(
        [cv2.resize(each, (width, 720), interpolation=cv2.INTER_AREA) for each in frames]
    )


def on_real(name: str) -> None:
    """One row of the table of real films."""
    frames, clock = real_film(name), Clock()
    height, width = frames.shape[1:3]
    tracks = clock.of("pose", lambda: pose.track_people(frames, rate_hz=REAL_HZ))
    camera = clock.of(
        "floor", lambda: lift.estimate_camera(tracks, height=height, width=width, rate_hz=REAL_HZ)
    )
    rng, off, shake = np.random.default_rng(0), [], []
    figures = []
    for track in tracks:
        figures.append(
            clock.of("body", lambda t=track: body.fit_figure(t, camera, rng, rate_hz=REAL_HZ))
        )
        points = lift.lift_track(track, camera, rate_hz=REAL_HZ)
        pixels, trust, _ = lift.list_track_points(track)
        sure = trust > 0.5
        head = np.median(np.ptp(pixels[..., 1], axis=1)) / 7
        off.append(np.median(np.linalg.norm(shown(points, camera) - pixels, axis=2)[sure]) / head)
        shake.append(jitter(about_hips(joints_of(figures[-1])[:, THEIRS]), REAL_HZ))
    light = render.estimate_light(frames[0], camera)
    for number in (0, 0, *range(len(frames))):  # the first compiles
        clock.seconds.pop("draw", None) if number == 0 else None
        clock.of(
            "draw",
            lambda k=number: render.render_figures(
                figures, k, frames[k], camera=camera, light=light
            ),
        )
    shown_for = sum(len(track) for track in tracks)
    each = {step: 1000 * spent / len(frames) for step, spent in clock.seconds.items()}
    times = ", ".join(f"{step} {spent:.0f}" for step, spent in each.items())
    print(
        f"| {name} | {len(tracks)} | {np.mean(off):.2f} | {np.mean(shake):.1f} | {times} | "
        f"{shown_for / len(frames):.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    if "--real" not in sys.argv:
        on_stage()
    print("| film | people | beside the finder, heads | jitter, m/s2 | CPU ms a frame |", end="")
    print(" people a frame |")
    for name in REAL:
        on_real(name)
