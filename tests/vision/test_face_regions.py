from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade.vision.face_detector import merge_regions, num_pixels

SIZE = (640, 960)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(0, 12))
def test_parts_hold_the_boxes_lie_on_the_grid_and_do_not_overlap(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, (900, 600), (count, 2))
    boxes = np.hstack([corner, np.minimum(corner + rng.uniform(4, 90, (count, 1)), SIZE[::-1])])
    parts = merge_regions(boxes, size=SIZE, step=32)
    for left, top, right, bottom in boxes:
        assert any(
            part[0] <= left and part[1] <= top and right <= part[2] and bottom <= part[3]
            for part in parts
        )
    assert all(side % 32 == 0 for part in parts for side in part)
    for one, other in combinations(parts, 2):
        assert max(one[0], other[0]) >= min(one[2], other[2]) or max(one[1], other[1]) >= min(
            one[3], other[3]
        )
    assert num_pixels(parts) <= SIZE[0] * SIZE[1]


def test_a_box_outside_the_picture_needs_no_part() -> None:
    assert merge_regions(np.array([[2000.0, 0.0, 2010.0, 10.0]]), size=SIZE, step=32) == []
