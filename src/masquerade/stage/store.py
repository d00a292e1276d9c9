"""Makes a whole world, several recordings at a time, and keeps it in the cache as plain arrays.

What is made lies in a folder named by a fingerprint of what it was made from; it gets that name
when it is complete, so a second call finds it and a killed one leaves nothing that looks finished.

Many films at once on a GPU: what is played on the processor is drawn there together.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from masquerade import joints
from masquerade._optional import lazy_module
from masquerade.errors import BadInput
from masquerade.io import atomic, downloads
from masquerade.io.streams import read_ahead
from masquerade.io.workers import WorkerPool
from masquerade.stage import backdrop, bodies, figure_gpu, places, plan, takes
from masquerade.stage.backdrop import InView
from masquerade.stage.plan import TakePlan, WorldPlan

if TYPE_CHECKING:
    import joblib
else:
    joblib = lazy_module("joblib")


_SAMPLES = 1 << 24  # of pictures that are drawn together, four to a pixel


class UndrawnFilm(NamedTuple):
    """A film that needs no more than drawing; it is small enough to be sent to another process.

    Args:
        take: what it shows.
        played: how.
        view: what the camera sees of the place.
    """

    take: TakePlan
    played: takes.UndrawnTake
    view: InView


def prepare_film(world: WorldPlan, number: int, *, kind: str) -> UndrawnFilm:
    """Play video or photo ``number``."""
    take = plan.plan_take(world, number, kind=kind)
    played = takes.play_take(world, take, kind=kind).keep_shown_rows()
    view = backdrop.find_quads_in_view(played.stage_place, played.camera, played.light)
    return UndrawnFilm(take, played, view)


def count_films_per_batch(world: WorldPlan, kind: str) -> int:
    """How many films are drawn together."""
    frames, height, width = world.compute_recording_size(kind)
    return max(1, _SAMPLES // (4 * frames * height * width))


def draw_films(
    played: Iterable[UndrawnFilm], *, most: int, device: str
) -> Iterator[tuple[UndrawnFilm, takes.StagedFilm]]:
    """Draw what is played as it comes, ``most`` at a time, in the same order."""
    coming = iter(played)
    while some := list(islice(coming, most)):
        yield from zip(some, draw_batch(some, device=device), strict=True)


def draw_batch(some: Sequence[UndrawnFilm], *, device: str) -> list[takes.StagedFilm]:
    """Films of one size and length, drawn together on a torch device.

    They are those that `takes.shoot_take` gives, to a grey level.
    """
    camera, views = some[0].played.camera, [film.view for film in some]
    behind = backdrop.draw_backdrops(views, camera.height, camera.width, device=device)
    scenes = [
        figure_gpu.UndrawnScene(
            film.played.list_dressed_people, film.played.camera, film.played.light
        )
        for film in some
    ]
    made = figure_gpu.draw_scenes(bodies.load_body_model(), scenes, behind)
    return [takes.develop_film(film.played, one) for film, one in zip(some, made, strict=True)]


CountCallback: TypeAlias = Callable[[int, int], None]
Shot: TypeAlias = tuple[dict[str, Any], dict[str, np.ndarray]]  # labels, and what is kept
Layout: TypeAlias = dict[str, tuple[tuple[int, ...], str]]

_FILMED_FIELDS = ("subjects", "places", "shares_subjects", "correlation")
FIELDS = {
    "videos": (*_FILMED_FIELDS, "bystanders", "videos", "frames", "height", "width", "rate_hz"),
    "photos": (*_FILMED_FIELDS, "photos", "photo_px"),
    "signals": ("wearers", "signal_hz"),
}
_RECORDINGS_PER_TASK = 6  # recordings that one process makes before it reports


def find_world_folder(world: WorldPlan, kind: str) -> Path:
    """Where the recordings of that kind lie, or will lie."""
    name = f"{kind}-{world.compute_fingerprint(kind, FIELDS[kind])}"
    return downloads.cache_folder() / "stage" / name


def is_made(world: WorldPlan, kind: str) -> bool:
    """Whether they are in the cache."""
    return (find_world_folder(world, kind) / "labels.json").is_file()


def make_recordings(
    world: WorldPlan,
    kind: str,
    *,
    progress: CountCallback,
    num_processes: int = 0,
    device: str = "cpu",
) -> Path:
    """Make all recordings of a kind, unless they are there already; give their folder.

    Args:
        world: its plan.
        kind: "videos", "photos" or "signals".
        progress: called with how many are done and their total.
        num_processes: that work at once; 0 for one a core.
        device: where pictures are drawn, "cpu" or "cuda".
    """
    target = find_world_folder(world, kind)
    bodies.load_body_model()  # baked once, before the processes start
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic.lock_target(target):
        if is_made(world, kind):
            return target
        for dead in target.parent.glob(f".{target.name}-*.part"):  # of a killed run: we are alone
            shutil.rmtree(dead)
        part = target.parent / f".{target.name}-{secrets.token_hex(4)}.part"
        part.mkdir()
        try:
            processes = num_processes or len(os.sched_getaffinity(0))
            if device == "cpu" or kind == "signals":
                _fill_folder(world, kind, part, progress, processes)
            else:
                _fill_folder_on_device(device, world, kind, part, progress, processes)
            if target.exists():  # without its labels: someone removed them
                shutil.rmtree(target)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target


@cache
def open_arrays(path: Path, kind: str) -> dict[str, np.ndarray]:
    """The arrays of a folder, read as they are needed."""
    names = (
        ("values", "activity", "ends")
        if kind == "signals"
        else _list_array_layouts(WorldPlan(), kind)
    )
    try:
        return {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in names}
    except (OSError, ValueError) as error:
        raise BadInput(f"Expected whole arrays in {path}, got {error}; delete it.") from error


@cache
def read_world_labels(path: Path) -> list[dict[str, Any]]:
    """What is known of each recording of a folder."""
    try:
        found: list[dict[str, Any]] = json.loads((path / "labels.json").read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"Expected labels in {path}, got {error}; delete it.") from error
    return found


def _fill_folder(
    world: WorldPlan, kind: str, part: Path, progress: CountCallback, processes: int
) -> None:
    numbers = _list_numbers(world, kind)
    if kind != "signals":
        _create_arrays(world, kind, part)
    known: list[dict[str, Any]] = []
    signals = []
    for found, arrays in _run_in_batches(
        partial(_make_files, world, kind, part), numbers, processes
    ):
        known += found
        signals += arrays
        progress(len(known), len(numbers))
    if kind == "signals":
        np.save(part / "values.npy", np.concatenate([values for values, _ in signals]))
        np.save(part / "activity.npy", np.concatenate([activity for _, activity in signals]))
        np.save(part / "ends.npy", np.cumsum([len(values) for values, _ in signals]))
    (part / "labels.json").write_text(json.dumps(known))


def _fill_folder_on_device(
    device: str, world: WorldPlan, kind: str, part: Path, progress: CountCallback, processes: int
) -> None:
    """As ``_fill_folder``; processes play the films, and this one draws them on the device."""
    numbers, held = _list_numbers(world, kind), _create_arrays(world, kind, part)
    known: list[dict[str, Any]] = []
    for labels, arrays in make_anew(world, kind, numbers, processes=processes, device=device):
        for name, array in arrays.items():
            held[name][labels["number"]] = array
        known.append(labels)
        progress(len(known), len(numbers))
    (part / "labels.json").write_text(json.dumps(known))


def make_anew(
    world: WorldPlan, kind: str, numbers: Sequence[int], *, processes: int, device: str
) -> Iterator[Shot]:
    """Labels of some videos or photos and what is kept of them, in order; not from the cache."""
    bodies.load_body_model()  # baked once, before the processes start
    if device == "cpu":
        yield from chain.from_iterable(
            _run_in_batches(partial(_make_shots, world, kind), numbers, processes)
        )
        return
    some = read_ahead(
        _run_in_batches(partial(_play_films, world, kind), numbers, processes)
    )  # while this draws
    played = chain.from_iterable(some)
    for ready, film in draw_films(played, most=count_films_per_batch(world, kind), device=device):
        yield _make_kept_arrays(world, ready.take, film, kind)


def _make_shots(world: WorldPlan, kind: str, numbers: list[int]) -> list[Shot]:
    return [make_shot(world, number, kind) for number in numbers]


def _list_numbers(world: WorldPlan, kind: str) -> range:
    return range({"videos": world.videos, "photos": world.photos}.get(kind, world.wearers))


def _run_in_batches(
    work: Callable[[list[int]], Any], numbers: Sequence[int], processes: int
) -> Generator[Any, None, None]:
    """What becomes of the numbers, a few at a time and in order."""
    chunks = np.array_split(numbers, -(-len(numbers) // _RECORDINGS_PER_TASK))
    pool = WorkerPool(jobs=processes)
    return pool.map_tasks(work, [chunk.tolist() for chunk in chunks])


def _create_arrays(world: WorldPlan, kind: str, part: Path) -> dict[str, np.ndarray]:
    """Files for all recordings, still empty."""
    count = len(_list_numbers(world, kind))
    return {
        name: np.lib.format.open_memmap(
            part / f"{name}.npy", mode="w+", dtype=dtype, shape=(count, *shape)
        )
        for name, (shape, dtype) in _list_array_layouts(world, kind).items()
    }


def _list_array_layouts(world: WorldPlan, kind: str) -> Layout:
    """Shape and type of one recording's arrays."""
    count = len(joints.JOINTS)
    frames, *size = world.compute_recording_size(kind)
    time = (frames,) if kind == "videos" else ()
    found: Layout = {
        "frames": ((*time, *size, 3), "u1"),
        "masks": ((*time, -(-size[0] * size[1] // 8)), "u1"),
        "joints": ((*time, count, 2), "f4"),
        "joints_3d": ((*time, count, 3), "f4"),
        "visible": ((*time, count), "?"),
    }
    if kind == "photos":
        found |= {"head_px": ((), "f4"), "box": ((4,), "f4")}
    return found


def pack_masks(mask: np.ndarray) -> np.ndarray:
    """Masks (..., H, W) as bits (..., bytes)."""
    return np.packbits(mask.reshape(*mask.shape[:-2], -1), axis=-1)


def unpack_masks(bits: np.ndarray, height: int, width: int) -> np.ndarray:
    """The masks again."""
    flat = np.unpackbits(bits, axis=-1, count=height * width)
    return flat.reshape(*bits.shape[:-1], height, width).astype(bool)


def make_shot(world: WorldPlan, number: int, kind: str) -> Shot:
    """Labels of a video or photo, and what is kept of it.

    That is the mask of all people and the joints of the one who acts.
    """
    take = plan.plan_take(world, number, kind=kind)
    return _make_kept_arrays(world, take, takes.shoot_take(world, take, kind=kind), kind)


def _make_kept_arrays(
    world: WorldPlan, take: plan.TakePlan, film: takes.StagedFilm, kind: str
) -> Shot:
    arrays = {
        "frames": film.frames,
        "masks": pack_masks(film.owner >= 0),
        "joints": film.joints[0],
        "joints_3d": film.joints_3d[0],
        "visible": film.visible[0],
    }
    if kind == "photos":
        head = film.head_box[0, 0]
        arrays = {name: array[0] for name, array in arrays.items()} | {
            "head_px": np.float32(0.6 * np.hypot(head[2], head[3])),  # as MPII measures heads
            "box": film.box[0, 0].astype(np.float32),
        }
    return make_take_labels(world, take, film.visible[0]), arrays


def make_take_labels(
    world: WorldPlan, take: plan.TakePlan, visible: np.ndarray | None = None
) -> dict[str, Any]:
    """Labels of a video or photo; ``visible`` (T, J) says whether the face is seen."""
    subject = plan.make_subject(take.subject, seed=world.seed)
    face = {}
    if visible is not None:
        is_seen = visible[:, joints.JOINTS.index("nose")].mean() >= 0.5
        face = {"face": "visible" if is_seen else "hidden"}
    return {
        "number": take.number,
        "split": take.split,
        "subject": subject.name,
        "activity": take.activity,
        "place": places.format_place_name(take.place),
        "view": f"v{take.view}",
        "attributes": subject.attributes | face,
    }


def _play_films(world: WorldPlan, kind: str, numbers: list[int]) -> list[UndrawnFilm]:
    return [prepare_film(world, number, kind=kind) for number in numbers]


def _make_files(
    world: WorldPlan, kind: str, part: Path, numbers: list[int]
) -> tuple[list[dict[str, Any]], list[tuple[np.ndarray, np.ndarray]]]:
    """Labels of some recordings; films are in their files then, signals are given back."""
    if kind == "signals":
        signals = [takes.simulate_session(world, number) for number in numbers]
        return [make_wearer_labels(world, number) for number in numbers], signals
    held = {
        name: np.load(part / f"{name}.npy", mmap_mode="r+")
        for name in _list_array_layouts(world, kind)
    }
    found = []
    for number in numbers:
        labels, arrays = make_shot(world, number, kind)
        for name, array in arrays.items():
            held[name][number] = array
        found.append(labels)
    return found, []


def make_wearer_labels(world: WorldPlan, number: int) -> dict[str, Any]:
    """Labels of a session."""
    who = world.list_people("all", world.wearers)[number]
    subject = plan.make_subject(who, seed=world.seed)
    return {
        "number": number,
        "subject": subject.name,
        "attributes": subject.attributes | {"channels": len(takes.list_channels())},
    }
