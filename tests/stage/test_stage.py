"""Stage: the same seed is the same world, in the cache as in memory, whole or not at all."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.collection import Labels, Medium
from masquerade.datasets.stage import PRESETS, Stage
from masquerade.errors import BadInput
from masquerade.recordings import Photo, Signal, Video
from masquerade.stage import bodies, plan, store, takes
from masquerade.stage.motion import ACTIVITIES

TINY: dict[str, Any] = {"subjects": 6, "places": 4, "videos": 24, "frames": 4, "height": 32}
TINY |= {"width": 32, "photos": 24, "photo_px": 32, "wearers": 6, "bystanders": 0.3}
KINDS = tuple(Medium)
EXACT = {"face"}  # what only the picture tells


def tiny(**changes: Any) -> Stage:
    return Stage(**(TINY | changes))


@pytest.fixture(scope="module", autouse=True)
def own_cache(world_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        yield


@pytest.fixture(scope="module")
def fresh(own_cache: None) -> dict[Medium, list[Any]]:
    """Recordings and then their labels, made on the spot."""
    found: dict[Medium, list[Any]] = {}
    for kind in KINDS:
        stage = tiny(kind=kind)
        assert not store.is_made(stage.world, str(kind))
        found[kind] = [*(stage[index] for index in (0, 3, -1)), stage.labels]
    return found


@pytest.fixture(scope="module")
def made(fresh: dict[Medium, list[Any]]) -> dict[Medium, Path]:
    """The same in the cache, made by two processes for the videos."""
    count = {Medium.VIDEOS: 2}
    return {
        kind: tiny(kind=kind).make_recordings(num_processes=count.get(kind, 1)) for kind in KINDS
    }


def content(recording: Video | Photo | Signal) -> dict[str, Any]:
    """Every field; arrays as bytes with their shape and type."""
    fields = {name: getattr(recording, name) for name in type(recording).__dataclass_fields__}
    return {
        name: (value.tobytes(), value.shape, str(value.dtype))
        if isinstance(value, np.ndarray)
        else value
        for name, value in fields.items()
    }


def differing(first: Any, second: Any) -> set[str]:
    one, two = content(first), content(second)
    return {name for name in one if one[name] != two[name]}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_is_the_same_bytes_and_another_is_not(
    fresh: dict[Medium, list[Any]], kind: Medium
) -> None:
    again, other = tiny(kind=kind, seed=0)[0], tiny(kind=kind, seed=1)[0]
    assert not differing(again, fresh[kind][0])
    pixels = {Medium.VIDEOS: "frames", Medium.PHOTOS: "image", Medium.SIGNALS: "values"}[kind]
    assert pixels in differing(other, fresh[kind][0])
    assert pixels in differing(tiny(kind=kind)[1], fresh[kind][0])


@pytest.mark.parametrize(
    "kind",
    [
        Medium.VIDEOS,
        Medium.SIGNALS,
        pytest.param(
            Medium.PHOTOS,
        ),
    ],
)
def test_the_cache_gives_what_was_made_on_the_spot_bit_for_bit(
    fresh: dict[Medium, list[Any]], made: dict[Medium, Path], kind: Medium
) -> None:
    stage = tiny(kind=kind)
    assert store.is_made(stage.world, str(kind)) and made[kind].is_dir()
    for index, before in zip((0, 3, -1), fresh[kind], strict=False):
        assert not differing(stage[index], before)


def test_photos_of_the_cache_differ_by_rounding_at_most(
    fresh: dict[Medium, list[Any]], made: dict[Medium, Path]
) -> None:
    for index, before in zip((0, 3, -1), fresh[Medium.PHOTOS], strict=False):
        photo = tiny(kind=Medium.PHOTOS)[index]
        assert differing(photo, before) <= {"head_px", "box"}
        assert isinstance(photo, Photo) and photo.box == pytest.approx(before.box, rel=1e-6)
        assert photo.head_px == pytest.approx(before.head_px, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_the_same_with_and_without_the_cache(
    fresh: dict[Medium, list[Any]], made: dict[Medium, Path], kind: Medium
) -> None:
    def told(one: Labels) -> tuple[Any, ...]:
        sure = {name: value for name, value in one.attributes.items() if name not in EXACT}
        return one.name, one.subject, one.activity, one.place, one.view, sure

    stage = tiny(kind=kind)
    assert [told(one) for one in stage.labels] == [told(one) for one in fresh[kind][-1]]
    for index in (0, 5):
        if kind != Medium.PHOTOS:
            assert stage[index].attributes == stage.labels[index].attributes
    assert stage.check()[1].found == len(stage)


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_make_rewrites_nothing(made: dict[Medium, Path], kind: Medium) -> None:
    before = {path: path.stat() for path in sorted(made[kind].rglob("*"))}
    stage = tiny(kind=kind)
    assert stage.make_recordings(progress=lambda done, total: pytest.fail("again")) == made[kind]
    assert {path: path.stat() for path in sorted(made[kind].rglob("*"))} == before
    assert len(before) > 3
    assert not list(made[kind].parent.glob(".*"))  # no parts left


def test_progress_reaches_the_total() -> None:
    seen: list[tuple[int, int]] = []
    stage = tiny(videos=13, seed=5)
    stage.make_recordings(progress=lambda *counts: seen.append(counts), num_processes=1)
    assert seen[-1] == (13, 13) and [done for done, _ in seen] == sorted({d for d, _ in seen})


def test_a_killed_make_leaves_nothing_under_the_final_name(world_cache: Path) -> None:
    code = (
        "import time; from test_stage import tiny\n"
        "wait = lambda done, total: (print(done, flush=True), time.sleep(60))\n"
        "tiny(seed=6).make_recordings(progress=wait, num_processes=1)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline().strip() == b"6"
        os.kill(process.pid, signal.SIGKILL)
    stage = tiny(seed=6)
    folder = store.find_world_folder(stage.world, "videos")
    assert not folder.exists() and not store.is_made(stage.world, "videos")
    assert stage.make_recordings(num_processes=1) == folder and folder.is_dir()
    assert isinstance(tiny(seed=6)[20], Video)
    for part in folder.parent.glob(".*.part"):  # what the killed one left
        shutil.rmtree(part)


def _make_and_count(start: Any, counts: Any) -> None:
    start.wait()
    seen: list[int] = []
    tiny(seed=7).make_recordings(progress=lambda done, total: seen.append(done), num_processes=1)
    counts.put(len(seen))


def test_two_processes_at_once_make_one_folder() -> None:
    context = multiprocessing.get_context("fork")
    start, counts = context.Barrier(2), context.Queue()
    pair = [context.Process(target=_make_and_count, args=(start, counts)) for _ in range(2)]
    for process in pair:
        process.start()
    found = sorted(counts.get(timeout=60) for _ in pair)
    for process in pair:
        process.join()
    assert found == [0, 4]  # chunks of six; the other waited and found it done
    folder = store.find_world_folder(tiny(seed=7).world, "videos")
    assert folder.is_dir() and not list(folder.parent.glob(f".{folder.name}*"))


@pytest.mark.parametrize("name", ["frames.npy", "labels.json"])
def test_a_truncated_file_says_what_to_delete(name: str) -> None:
    stage = tiny(videos=6, frames=2, seed=len(name))
    file = stage.make_recordings(num_processes=1) / name
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(BadInput, match=rf"{file.parent.name}.*delete it"):
        _ = tiny(videos=6, frames=2, seed=len(name))[0]
    shutil.rmtree(file.parent)
    assert isinstance(tiny(videos=6, frames=2, seed=len(name))[0], Video)  # made on the spot


def test_a_missing_file_says_what_to_delete() -> None:
    folder = tiny(videos=6, frames=2, seed=8).make_recordings(num_processes=1)
    (folder / "masks.npy").unlink()
    with pytest.raises(BadInput, match="delete it"):
        _ = tiny(videos=6, frames=2, seed=8)[0]


def subjects_of(**changes: Any) -> list[set[str | None]]:
    splits = (Stage(split=split, **changes) for split in ("public", "train", "test"))
    return [{one.subject for one in stage.labels} for stage in splits]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("subjects", [6, 7, 13, 42])
def test_nobody_is_in_two_splits(kind: Medium, subjects: int) -> None:
    few = {"videos": 240, "photos": 240}  # enough for everyone to act
    public, train, test = subjects_of(kind=kind, subjects=subjects, wearers=subjects, **few)
    assert not (public & train or public & test or train & test)
    assert len(public | train | test) == subjects
    assert len(public) >= len(train) >= len(test) >= 1
    parts = [len(tiny(kind=kind, split=split)) for split in ("public", "train", "test", "all")]
    assert sum(parts[:3]) == parts[3]


def test_somebody_is_in_two_splits_where_that_is_wanted() -> None:
    public, train, test = subjects_of(shares_subjects=True)
    assert public & train and public & test and train & test


def test_nobody_is_public_in_signals_and_private_in_videos() -> None:
    public = subjects_of(kind=Medium.SIGNALS, preset="medium")[0]
    private = set().union(*subjects_of(kind=Medium.VIDEOS, preset="medium", videos=400)[1:])
    assert not public & private


def test_a_bystander_is_of_the_same_split_and_not_the_actor() -> None:
    world = tiny(subjects=12, bystanders=1.0, videos=240).world
    for split in ("public", "train", "test"):
        group = plan.list_split_people(split, 12)
        for number in plan.list_split_members(split, 240):
            take = plan.plan_take(world, number, kind="videos")
            assert take.bystander in group and take.bystander != take.subject in group


@pytest.mark.parametrize("kind", ["videos", "photos"])
@pytest.mark.parametrize("preset", ["small", "medium"])
def test_activities_are_balanced_in_every_split(kind: str, preset: str) -> None:
    world = PRESETS[preset]
    count = world.videos if kind == "videos" else world.photos
    for split in plan.SPLITS:
        made = [plan.plan_take(world, n, kind=kind) for n in plan.list_split_members(split, count)]
        acts = Counter(take.activity for take in made)
        assert set(acts) == set(ACTIVITIES) and len(set(acts.values())) == 1
        people = len(plan.list_split_members(split, world.subjects))
        pairs = {(take.activity, take.subject) for take in made}
        assert len(pairs) >= 0.9 * len(ACTIVITIES) * min(people, len(made) // 12)


def test_with_correlation_each_activity_has_places_of_its_own() -> None:
    homes: dict[float, dict[Any, set[Any]]] = {}
    for correlation in (0.0, 1.0):
        labels = Stage(correlation=correlation, videos=720).labels
        homes[correlation] = {
            act: {one.place for one in labels if one.activity == act} for act in ACTIVITIES
        }
    assert sum(map(len, homes[1.0].values())) == len(set().union(*homes[1.0].values())) == 48
    assert all(len(places) > 24 for places in homes[0.0].values())


def test_a_bystander_is_in_the_mask_and_in_the_film() -> None:
    alone, joined = tiny(bystanders=0.0, seed=3), tiny(bystanders=1.0, seed=3)
    shown = 0
    for index in range(4):
        film, mask = joined.make_staged_film(index), joined[index].person_mask
        assert film.joints.shape[0] == 2 == len(film.posed)
        assert np.array_equal(mask, film.owner >= 0)
        assert (
            alone.make_staged_film(index).joints.shape[0] == 1
            and alone.make_staged_film(index).owner.max() <= 0
        )
        shown += int((film.owner == 1).any())
    assert shown >= 2  # one may be hidden or out of the picture


@pytest.mark.parametrize(("height", "width"), [(64, 64), (240, 320), (224, 224), (1, 1), (17, 50)])
def test_any_size_works(height: int, width: int) -> None:
    video = tiny(height=height, width=width, frames=2)[1]
    assert isinstance(video, Video) and video.frames.shape == (2, height, width, 3)
    assert video.person_mask is not None and video.person_mask.shape == (2, height, width)
    assert height < 8 or 0.01 < video.person_mask.mean() < 0.6


@pytest.mark.parametrize("frames", [1, 16, 60])
def test_any_number_of_frames_works(frames: int) -> None:
    video = tiny(frames=frames)[6]
    assert isinstance(video, Video) and len(video.frames) == frames
    assert video.joints is not None and len(video.joints) == frames
    assert frames == 1 or (video.frames[0] != video.frames[-1]).any()


@pytest.mark.parametrize(("joints", "count"), [("mpii", 16), ("coco", 17), ("all", 21)])
def test_joints_come_in_the_order_that_is_asked(joints: Any, count: int) -> None:
    video, photo = (tiny(kind=kind, joints=joints)[2] for kind in (Medium.VIDEOS, Medium.PHOTOS))
    names = tiny(joints=joints).joint_names
    assert video.joints.shape == (4, count, 2) and video.joints_3d.shape == (4, count, 3)
    assert photo.joints.shape == (count, 2) and photo.visible.shape == (count,)
    whole = tiny(joints="all")[2]
    for place, name in enumerate(names):
        assert np.array_equal(video.joints[:, place], whole.joints[:, bodies.JOINTS.index(name)])


def test_recordings_say_what_they_are(made: dict[Medium, Path]) -> None:
    video, photo, read = (tiny(kind=kind)[1] for kind in KINDS)
    known = {"skin_tone", "gender", "build", "hair", "clothing", "handedness"}
    assert set(video.attributes) == known | {"face"} and video.view.startswith("v")
    assert set(photo.attributes) == known | {"face", "activity", "place"}
    assert known <= set(read.attributes) and read.channels == takes.list_channels()
    assert video.activity == ACTIVITIES[1] == photo.attributes["activity"]
    assert video.place in {one.place for one in tiny().labels}
    x, y, width, height = photo.box
    assert 0 < photo.head_px < height and width > 0
    seen = photo.joints[photo.visible]
    assert (seen >= [x - 1, y - 1]).all() and (seen <= [x + width + 1, y + height + 1]).all()
    faces = {one.attributes["face"] for one in tiny().labels}
    assert faces == {"visible", "hidden"}


@pytest.mark.parametrize("kind", ["videos", Medium.VIDEOS])
def test_a_kind_is_its_name(kind: Any) -> None:
    assert tiny(kind=kind).labels[0].name == "videos/00000" and len(tiny(kind=kind)) == 24


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subjects": 5}, "Expected subjects >= 6, .*got subjects=5"),
        ({"wearers": 0}, "wearers"),
        ({"subjects": 6.5}, "subjects to be a whole number"),
        ({"correlation": 2.0}, "Expected correlation from 0 to 1, got correlation=2"),
        ({"correlation": float("nan")}, "correlation"),
        ({"correlation": 0.5}, "at least 12 places.*got places=4"),
        ({"bystanders": -0.1}, "bystanders"),
        ({"split": "nope"}, "Unknown split 'nope'; choose from public, train, test, all"),
        ({"preset": "huge"}, "Unknown preset 'huge'; choose from small, medium, large"),
        ({"joints": "openpose"}, "Unknown joints"),
        ({"kind": "films"}, "Unknown kind 'films'.*videos, photos, signals"),
        ({"height": 0}, "height to be a whole number >= 1, got height=0"),
        ({"frames": 2.5}, "frames"),
        ({"rate_hz": 0.0}, "rate_hz"),
        ({"signal_hz": 200.0}, "signal_hz up to 100, got signal_hz=200"),
        ({"seed": -1}, "seed to be a whole number >= 0, got seed=-1"),
        ({"seed": 1.5}, "seed"),
        ({"repertoire": "secret"}, "Unknown repertoire 'secret'; choose from daily, public"),
        ({"repertoire": "public", "split": "train"}, "split=train: nobody.*take split=public"),
        ({"repertoire": "public", "split": "test"}, "Expected split=public"),
        ({"class_share": (1.0, 2.0)}, "Expected 12 class_share, one for each of walk, .*got 2"),
        ({"class_share": (-1.0, *[1.0] * 11)}, "class_share to be finite and >= 0"),
        ({"class_share": (0.0,) * 12}, "one above 0 at least"),
        ({"class_share": (float("nan"), *[1.0] * 11)}, "finite"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny(**changes)


def test_signals_are_not_filmed_and_an_index_has_an_end() -> None:
    with pytest.raises(ValueError, match="they are not filmed"):
        tiny(kind=Medium.SIGNALS).make_staged_film(0)
    with pytest.raises(IndexError, match="below 24"):
        _ = tiny()[24]
