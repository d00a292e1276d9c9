"""Which work measures which figure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from masquerade.networks.without_privacy import Progress
from masquerade.recipes.stage.figures import films, people, places

WORK: dict[str, Callable[[Progress], dict[str, float]]] = {
    "video": films.activity_from_video,
    "frame": films.activity_from_frame,
    "background": partial(films.activity_from_background, 0.0),
    "background_correlated": partial(films.activity_from_background, 0.9),
    "signals": places.activity_from_wrist,
    "pose": people.pose_from_photo,
    "subject": people.subject_from_video,
    "attributes": people.attributes_from_video,
    "place": places.place_from_photo,
}
