"""PPEDCRF on real film: is a place still named by another camera's picture of it?

Two cameras in front of a platform and two behind it; each film is asked for among the other
camera's picture of the same side and pictures of other films. Four films of one place are few: the
numbers show that things work on film as on Stage, and no more. A minute of one core and what is
fetched (60 MB); ``--more`` takes other films as distractors, such as vtest.avi of Debian's
opencv-doc.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import cv2
import numpy as np
import tyro

from experiments import ppedcrf_films as variants
from masquerade.attacks.place_matching import PlaceGallery
from masquerade.io import downloads
from masquerade.io.video import read
from masquerade.recordings import Video
from masquerade.vision.person_detector import PersonSegmenter
from masquerade.vision.place_features import PlaceFeatures

SIDES = (("cam01", "cam02"), ("cam03", "cam04"))
OTHERS = ("carphone", "bikes", "bigbuckbunny", "sports2d_demo")
EACH = 12  # pictures of a distractor, evenly over its frames
SHORTER = 192  # pixels
PSNRS = (36.0, 33.0, 30.0)
ROWS = (
    variants.SELECTIVE_ROW,
    variants.EVEN_ROW,
    variants.BEHIND_ROW,
    variants.GLOBAL_ROW,
)


def small(frame: np.ndarray) -> np.ndarray:
    scale = SHORTER / min(frame.shape[:2])
    size = (round(frame.shape[1] * scale), round(frame.shape[0] * scale))
    return np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA))


def frames_of(path: Path, count: int) -> list[np.ndarray]:
    """So many, evenly over the film."""
    total = sum(1 for _ in read.read_frames(path))
    wanted = {round((n + 0.5) * total / count - 0.5) for n in range(count)}
    return [small(f) for n, f in enumerate(read.read_frames(path)) if n in wanted]


def camera(name: str) -> Path:
    return downloads.fetch_asset(f"pose2sim_single_{name}")


def queries() -> tuple[list[Video], list[np.ndarray]]:
    """Each camera's middle frame with its people, and the picture of the camera beside it."""
    segmenter, films, right = PersonSegmenter(private="background"), [], []
    segmenter.load_networks()
    for one, other in (pair for side in SIDES for pair in (side, side[::-1])):
        (middle,) = frames_of(camera(one), 1)
        mask = segmenter.segment_frame(middle)
        films.append(Video(frames=middle[None], rate_hz=30, person_mask=mask[None]))
        right += frames_of(camera(other), 1)
    return films, right


def distractors(more: tuple[Path, ...]) -> list[np.ndarray]:
    paths = [*(downloads.fetch_asset(name) for name in OTHERS), *more]
    return list(itertools.chain.from_iterable(frames_of(path, EACH) for path in paths))


def ahead(eye: PlaceFeatures, shown: list[np.ndarray], held: list[PlaceGallery]) -> np.ndarray:
    """For each picture, the cosine with the right one less the best of the others."""
    rows = np.concatenate([eye.embed(one[None]) for one in shown])
    found = []
    for row, gallery in zip(rows, held, strict=True):
        scores = gallery.score_places(row[None], np.arange(len(gallery.features)))[0]
        found.append(scores[0] - scores[1:].max())
    return np.array(found)


def main(
    networks: tuple[str, ...] = ("mobilenet_v2", "efficientnet_lite2"),
    more: tuple[Path, ...] = (),
    seeds: int = 3,
) -> None:
    """Measure.

    Args:
        networks: attackers.
        more: other films, as distractors.
        seeds: runs.
    """
    films, right = queries()
    others = distractors(more)
    people = np.mean([film.person_mask.mean() for film in films])  # type: ignore[union-attr]
    print(f"{len(films)} films, people on {people:.2f} of them, {len(others)} other pictures.")
    strong = {
        (row.name, psnr): variants.match_psnr(row, films, psnr) for row in ROWS for psnr in PSNRS
    }
    for name in networks:
        eye = PlaceFeatures(backbone=name)
        apart = np.concatenate([eye.embed(one[None]) for one in others])
        held = [
            PlaceGallery(
                features=np.concatenate([eye.embed(one[None]), apart]),
                owner=np.arange(1 + len(apart)),
            )
            for one in right
        ]
        raw = ahead(eye, [film.frames[0] for film in films], held)
        print(f"{name}, raw: named {np.mean(raw > 0):.2f}, ahead by {raw.mean():+.3f}")
        for psnr, row in itertools.product(PSNRS, ROWS):
            made = strong[row.name, psnr]
            runs = [
                ahead(eye, [made.release(f, 10 * s + n)[0] for n, f in enumerate(films)], held)
                for s in range(seeds)
            ]
            named = np.mean(np.array(runs) > 0, axis=1)
            print(
                f"{name}, {psnr:g} dB, {row.name}: named {named.mean():.2f} +- "
                f"{named.std(ddof=1):.2f}, ahead by {np.mean(runs):+.3f}"
            )


if __name__ == "__main__":
    tyro.cli(main)
