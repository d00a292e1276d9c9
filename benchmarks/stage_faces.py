"""Claim: a face detector finds 90 % of the faces that look at the camera in Stage's preset faces.

The detector is that of ``face_blur``, as it is by default, on every fifth frame alone. A face is
visible where nothing lies 5 cm or more in front of nose and eyes, and looks at the camera where the
eyes are also a tenth of the head's height apart (within about 70 degrees); it is found if a box
holds the nose. All that are visible, profiles too, are counted as well, and also in films that
``face_blur`` released, where a face stays covered between two finds. Peer: the usual pictures of 96
x 96 pixels. Three minutes, with PYTHONPATH=. from the root.
"""

import time

import numpy as np

from experiments.video_dprp import count_faces
from masquerade.datasets.stage import Stage
from masquerade.mechanisms.face_blur import FaceBlur
from masquerade.stage import bodies

FACE = [bodies.JOINTS.index(name) for name in ("nose", "left_eye", "right_eye")]
TOWARDS = 0.1  # of the head's height, between the eyes
GOAL = 0.9
DETECT = FaceBlur()._load_detector()


def faces(stage: Stage) -> np.ndarray:
    """(N, 3) of every face: the head's height in pixels, whether it looks here, is found."""
    rows = []
    for index in range(len(stage)):
        film = stage.make_staged_film(index)
        for now in range(0, len(film.frames), 5):
            boxes = DETECT(film.frames[now])
            for person in np.flatnonzero(film.visible[:, now, FACE].all(axis=-1)):
                nose, left, right = film.joints[person, now, FACE]
                tall = film.head_box[person, now, 3]
                held = (nose >= boxes[:, :2]) & (nose <= boxes[:, 2:4])
                towards = np.linalg.norm(left - right) >= TOWARDS * tall
                rows.append((tall, towards, held.all(axis=-1).any()))
    return np.array(rows, float)


def tell(name: str, stage: Stage) -> float:
    """Print the shares that are found; that of the faces that look at the camera."""
    begun = time.process_time()
    found = faces(stage)
    towards = found[found[:, 1] == 1]
    print(
        f"{name}: {len(stage)} films, heads of {np.median(found[:, 0]):.0f} pixels: "
        f"{towards[:, 2].mean():.1%} of {len(towards)} faces that look at the camera, "
        f"{found[:, 2].mean():.1%} of {len(found)} with profiles "
        f"({time.process_time() - begun:.0f} s of processor time)"
    )
    return float(towards[:, 2].mean())


if __name__ == "__main__":
    tell("small", Stage(split="test"))
    near = Stage(preset="faces")
    share = tell("faces", near)
    films = count_faces(near, FaceBlur(), most=len(near.select_part("test")))
    if films is not None:
        print(f"  in released films {films.found / films.visible:.1%} of {films.visible} visible")
    print(f"  target >= {GOAL:.0%}: {'pass' if share >= GOAL else 'MISS'}")
