"""Stage's repertoires and shares: daily worlds stay as they were, and public ones are public."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_stage import KINDS, differing, tiny

from masquerade.collection import Medium
from masquerade.datasets.stage import PRESETS, Stage
from masquerade.stage import motion, plan, store
from masquerade.stage.motion import ACTIVITIES


@pytest.fixture(scope="module", autouse=True)
def own_cache(world_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        yield


GOLDEN = {  # number: subject, bystander, activity, place, view of a video of the small world
    0: (0, None, "walk", 13, 5),
    323: (36, None, "fall", 44, 5),
    324: (1, 19, "walk", 34, 3),
    400: (37, None, "clap", 9, 1),
    539: (7, None, "fall", 10, 4),
    647: (5, 29, "fall", 47, 4),
}


def test_a_daily_world_is_planned_as_it_always_was() -> None:
    small = PRESETS["small"]
    for number, known in GOLDEN.items():
        take = plan.plan_take(small, number, kind="videos")
        assert (take.subject, take.bystander, take.activity, take.place, take.view) == known
    names = {kind: small.compute_fingerprint(kind, store.FIELDS[kind]) for kind in store.FIELDS}
    assert names == {
        "videos": "4457b1aea03cfb71",
        "photos": "f1bed713e45ae4d6",
        "signals": "d75e6102a95ac3c5",
    }


def public_world(**changes: Any) -> Stage:
    return tiny(repertoire="public", videos=48, photos=48, subjects=12, wearers=8, **changes)


def test_a_public_repertoire_is_done_by_public_people_alone() -> None:
    stage = public_world()
    assert stage.activities == motion.PUBLIC_ACTIVITIES and len(stage) == len(
        stage.select_part("public")
    )
    labels = stage.labels
    assert Counter(one.activity for one in labels) == dict.fromkeys(motion.PUBLIC_ACTIVITIES, 2)
    everybody = set(plan.list_split_people("public", 100))
    for kind in KINDS:
        seen = {int(str(one.subject)[1:]) for one in public_world(kind=kind).labels}
        assert seen <= everybody and len(seen) == {"signals": 8}.get(str(kind), 12)
    daily = tiny(videos=48, subjects=12).labels
    assert [one.view for one in labels] != [one.view for one in daily]  # nothing is shared
    world, other = stage.world, tiny(videos=48, photos=48, subjects=12, wearers=8).world
    for kind in KINDS:
        fields = store.FIELDS[str(kind)]
        assert world.compute_fingerprint(kind, fields) != other.compute_fingerprint(kind, fields)


def test_a_public_repertoire_is_filmed_photographed_and_measured() -> None:
    video, photo = (public_world(kind=kind)[11] for kind in KINDS[:2])
    read = public_world(kind=Medium.SIGNALS)[3]
    assert video.activity == motion.PUBLIC_ACTIVITIES[11] == photo.attributes["activity"]
    assert video.person_mask.any() and np.isfinite(video.joints).all()
    assert set(np.unique(read.activity)) == set(range(-1, len(motion.PUBLIC_ACTIVITIES)))
    assert np.isfinite(read.values).all() and len(public_world().simulate_wrist(3))


def test_activities_have_the_shares_that_are_asked() -> None:
    shares = (8.0, 4.0, 0.0, *[1.0] * 9)
    stage = Stage(class_share=shares, videos=504)
    for split in ("public", "train", "test"):
        acts = Counter(one.activity for one in stage.select_part(split).labels)
        count = len(stage.select_part(split))
        for activity, share in zip(ACTIVITIES, shares, strict=True):
            assert abs(acts[activity] - count * share / sum(shares)) <= 1, (split, activity)
        half = Counter(one.activity for one in stage.select_part(split).labels[: count // 2])
        assert abs(half["walk"] - acts["walk"] / 2) <= 1  # also of a beginning
        people = {one.subject for one in stage.select_part(split).labels if one.activity == "walk"}
        assert len(people) >= 6
    videos = store.FIELDS["videos"]
    assert stage.world.compute_fingerprint("videos", videos) != Stage(
        videos=504
    ).world.compute_fingerprint("videos", videos)


def test_equal_shares_are_the_plan_without_shares() -> None:
    labels = Stage(class_share=(3.0,) * 12, videos=216).labels
    assert labels == Stage(videos=216).labels


def test_videos_that_are_kept_nowhere_are_those_of_the_collection() -> None:
    stage = tiny(split="test")
    for index, video in enumerate(stage.make_videos(3, num_processes=1)):
        assert not differing(video, stage[index])
    with pytest.raises(ValueError, match="Expected count from 1 to 4, got count=5"):
        stage.make_videos(5)
