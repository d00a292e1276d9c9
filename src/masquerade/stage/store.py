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
from masquerade._optional import Later
from masquerade.errors import BadInput
from masquerade.io import atomic, downloads
from masquerade.io.streams import ahead
from masquerade.io.workers import WorkerPool
from masquerade.stage import backdrop, bodies, figure_gpu, places, plan, takes
from masquerade.stage.backdrop import InView
from masquerade.stage.plan import Take, WorldPlan

if TYPE_CHECKING:
    import joblib
else:
    joblib = Later("joblib")


_SAMPLES = 1 << 24  # of pictures that are drawn together, four to a pixel


class Ready(NamedTuple):
    """A film that needs no more than drawing; it is small enough to be sent to another process.

    Args:
        take: what it shows.
        played: how.
        view: what the camera sees of the place.
    """

    take: Take
    played: takes.Script
    view: InView


def ready(world: WorldPlan, number: int, *, kind: str) -> Ready:
    """Play video or photo ``number``."""
    take = plan.take(world, number, kind=kind)
    played = takes.script(world, take, kind=kind).shown()
    view = backdrop.in_view(played.staged_place, played.camera, played.light)
    return Ready(take, played, view)


def together(world: WorldPlan, kind: str) -> int:
    """How many films are drawn together."""
    frames, height, width = world.size(kind)
    return max(1, _SAMPLES // (4 * frames * height * width))


def films(
    played: Iterable[Ready], *, most: int, device: str
) -> Iterator[tuple[Ready, takes.StagedFilm]]:
    """Draw what is played as it comes, ``most`` at a time, in the same order."""
    coming = iter(played)
    while some := list(islice(coming, most)):
        yield from zip(some, draw(some, device=device), strict=True)


def draw(some: Sequence[Ready], *, device: str) -> list[takes.StagedFilm]:
    """Films of one size and length, drawn together on a torch device.

    They are those that `takes.shoot` gives, to a grey level.
    """
    camera, views = some[0].played.camera, [film.view for film in some]
    behind = backdrop.draw_backdrops(views, camera.height, camera.width, device=device)
    scenes = [
        figure_gpu.Scene(film.played.people, film.played.camera, film.played.light) for film in some
    ]
    made = figure_gpu.draw(bodies.model(), scenes, behind)
    return [takes.developed(film.played, one) for film, one in zip(some, made, strict=True)]


Progress: TypeAlias = Callable[[int, int], None]
Shot: TypeAlias = tuple[dict[str, Any], dict[str, np.ndarray]]  # labels, and what is kept
Layout: TypeAlias = dict[str, tuple[tuple[int, ...], str]]

_FILMED = ("subjects", "places", "shares_subjects", "correlation")
FIELDS = {
    "videos": (*_FILMED, "bystanders", "videos", "frames", "height", "width", "rate_hz"),
    "photos": (*_FILMED, "photos", "photo_px"),
    "signals": ("wearers", "signal_hz"),
}
_TOGETHER = 6  # recordings that one process makes before it reports


def folder(world: WorldPlan, kind: str) -> Path:
    """Where the recordings of that kind lie, or will lie."""
    name = f"{kind}-{world.fingerprint(kind, FIELDS[kind])}"
    return downloads.cache_folder() / "stage" / name


def is_made(world: WorldPlan, kind: str) -> bool:
    """Whether they are in the cache."""
    return (folder(world, kind) / "labels.json").is_file()


def make(
    world: WorldPlan,
    kind: str,
    *,
    progress: Progress,
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
    target = folder(world, kind)
    bodies.model()  # baked once, before the processes start
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic.alone(target):
        if is_made(world, kind):
            return target
        for dead in target.parent.glob(f".{target.name}-*.part"):  # of a killed run: we are alone
            shutil.rmtree(dead)
        part = target.parent / f".{target.name}-{secrets.token_hex(4)}.part"
        part.mkdir()
        try:
            processes = num_processes or len(os.sched_getaffinity(0))
            if device == "cpu" or kind == "signals":
                _fill(world, kind, part, progress, processes)
            else:
                _fill_on(device, world, kind, part, progress, processes)
            if target.exists():  # without its labels: someone removed them
                shutil.rmtree(target)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target


@cache
def opened(path: Path, kind: str) -> dict[str, np.ndarray]:
    """The arrays of a folder, read as they are needed."""
    names = ("values", "activity", "ends") if kind == "signals" else _layout(WorldPlan(), kind)
    try:
        return {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in names}
    except (OSError, ValueError) as error:
        raise BadInput(f"Expected whole arrays in {path}, got {error}; delete it.") from error


@cache
def labels(path: Path) -> list[dict[str, Any]]:
    """What is known of each recording of a folder."""
    try:
        found: list[dict[str, Any]] = json.loads((path / "labels.json").read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"Expected labels in {path}, got {error}; delete it.") from error
    return found


def _fill(world: WorldPlan, kind: str, part: Path, progress: Progress, processes: int) -> None:
    numbers = _numbers(world, kind)
    if kind != "signals":
        _lay_out(world, kind, part)
    known: list[dict[str, Any]] = []
    signals = []
    for found, arrays in _at_once(partial(_made, world, kind, part), numbers, processes):
        known += found
        signals += arrays
        progress(len(known), len(numbers))
    if kind == "signals":
        np.save(part / "values.npy", np.concatenate([values for values, _ in signals]))
        np.save(part / "activity.npy", np.concatenate([activity for _, activity in signals]))
        np.save(part / "ends.npy", np.cumsum([len(values) for values, _ in signals]))
    (part / "labels.json").write_text(json.dumps(known))


def _fill_on(
    device: str, world: WorldPlan, kind: str, part: Path, progress: Progress, processes: int
) -> None:
    """As ``_fill``; processes play the films, and this one draws them on the device."""
    numbers, held = _numbers(world, kind), _lay_out(world, kind, part)
    known: list[dict[str, Any]] = []
    for labels, arrays in anew(world, kind, numbers, processes=processes, device=device):
        for name, array in arrays.items():
            held[name][labels["number"]] = array
        known.append(labels)
        progress(len(known), len(numbers))
    (part / "labels.json").write_text(json.dumps(known))


def anew(
    world: WorldPlan, kind: str, numbers: Sequence[int], *, processes: int, device: str
) -> Iterator[Shot]:
    """Labels of some videos or photos and what is kept of them, in order; not from the cache."""
    bodies.model()  # baked once, before the processes start
    if device == "cpu":
        yield from chain.from_iterable(_at_once(partial(_shots, world, kind), numbers, processes))
        return
    some = ahead(_at_once(partial(_played, world, kind), numbers, processes))  # while this draws
    played = chain.from_iterable(some)
    for ready, film in films(played, most=together(world, kind), device=device):
        yield _kept(world, ready.take, film, kind)


def _shots(world: WorldPlan, kind: str, numbers: list[int]) -> list[Shot]:
    return [shot(world, number, kind) for number in numbers]


def _numbers(world: WorldPlan, kind: str) -> range:
    return range({"videos": world.videos, "photos": world.photos}.get(kind, world.wearers))


def _at_once(
    work: Callable[[list[int]], Any], numbers: Sequence[int], processes: int
) -> Generator[Any, None, None]:
    """What becomes of the numbers, a few at a time and in order."""
    chunks = np.array_split(numbers, -(-len(numbers) // _TOGETHER))
    pool = WorkerPool(jobs=processes)
    return pool.map_tasks(work, [chunk.tolist() for chunk in chunks])


def _lay_out(world: WorldPlan, kind: str, part: Path) -> dict[str, np.ndarray]:
    """Files for all recordings, still empty."""
    count = len(_numbers(world, kind))
    return {
        name: np.lib.format.open_memmap(
            part / f"{name}.npy", mode="w+", dtype=dtype, shape=(count, *shape)
        )
        for name, (shape, dtype) in _layout(world, kind).items()
    }


def _layout(world: WorldPlan, kind: str) -> Layout:
    """Shape and type of one recording's arrays."""
    count = len(joints.JOINTS)
    frames, *size = world.size(kind)
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


def packed(mask: np.ndarray) -> np.ndarray:
    """Masks (..., H, W) as bits (..., bytes)."""
    return np.packbits(mask.reshape(*mask.shape[:-2], -1), axis=-1)


def unpacked(bits: np.ndarray, height: int, width: int) -> np.ndarray:
    """The masks again."""
    flat = np.unpackbits(bits, axis=-1, count=height * width)
    return flat.reshape(*bits.shape[:-1], height, width).astype(bool)


def shot(world: WorldPlan, number: int, kind: str) -> Shot:
    """Labels of a video or photo, and what is kept of it.

    That is the mask of all people and the joints of the one who acts.
    """
    take = plan.take(world, number, kind=kind)
    return _kept(world, take, takes.shoot(world, take, kind=kind), kind)


def _kept(world: WorldPlan, take: plan.Take, film: takes.StagedFilm, kind: str) -> Shot:
    arrays = {
        "frames": film.frames,
        "masks": packed(film.owner >= 0),
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
    return take_labels(world, take, film.visible[0]), arrays


def take_labels(
    world: WorldPlan, take: plan.Take, visible: np.ndarray | None = None
) -> dict[str, Any]:
    """Labels of a video or photo; ``visible`` (T, J) says whether the face is seen."""
    subject = plan.make(take.subject, seed=world.seed)
    face = {}
    if visible is not None:
        is_seen = visible[:, joints.JOINTS.index("nose")].mean() >= 0.5
        face = {"face": "visible" if is_seen else "hidden"}
    return {
        "number": take.number,
        "split": take.split,
        "subject": subject.name,
        "activity": take.activity,
        "place": places.name_of(take.place),
        "view": f"v{take.view}",
        "attributes": subject.attributes | face,
    }


def _played(world: WorldPlan, kind: str, numbers: list[int]) -> list[Ready]:
    return [ready(world, number, kind=kind) for number in numbers]


def _made(
    world: WorldPlan, kind: str, part: Path, numbers: list[int]
) -> tuple[list[dict[str, Any]], list[tuple[np.ndarray, np.ndarray]]]:
    """Labels of some recordings; films are in their files then, signals are given back."""
    if kind == "signals":
        signals = [takes.session(world, number) for number in numbers]
        return [wearer_labels(world, number) for number in numbers], signals
    held = {name: np.load(part / f"{name}.npy", mmap_mode="r+") for name in _layout(world, kind)}
    found = []
    for number in numbers:
        labels, arrays = shot(world, number, kind)
        for name, array in arrays.items():
            held[name][number] = array
        found.append(labels)
    return found, []


def wearer_labels(world: WorldPlan, number: int) -> dict[str, Any]:
    """Labels of a session."""
    who = world.people("all", world.wearers)[number]
    subject = plan.make(who, seed=world.seed)
    return {
        "number": number,
        "subject": subject.name,
        "attributes": subject.attributes | {"channels": len(takes.channels())},
    }
