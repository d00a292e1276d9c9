"""What can be learned from avatars, where only what learns is installed: films, then two tables.

    PYTHONPATH=. python benchmarks/avatar_tables.py films  [--videos 2592] [--jobs 14]
    PYTHONPATH=. python benchmarks/avatar_tables.py avatar [--videos 2592] [--jobs 14] [--seeds 5]
    PYTHONPATH=. python benchmarks/avatar_tables.py render [--videos 2592] [--jobs 14] [--seeds 3]

The same as `python -m experiments avatar` and `... mask_dp --render`, without what reads
video files, keeps ledgers or draws on a screen. Films are released once, a third of them to test
on, and kept in the cache (MASQUERADE_CACHE); whatever was stopped goes on where it was when the
same line is given again. --out has the results in folders avatar and render.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from experiments import avatar, mask_dp
from experiments.avatar_films import AvatarFilms, size_stage
from experiments.engine import Experiment, Journal, Run
from masquerade.datasets.stage import Stage

EVERY_S = 20.0  # between two lines about how far it is


class Said:
    """A line now and then."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say it, if the last line is some time ago or the work is done."""
        if done == total or time.monotonic() - self.last > EVERY_S:
            self.last = time.monotonic()
            print(f"{time.strftime('%H:%M:%S')} {what}: {done} of {total}", flush=True)


def choose_experiment(args: argparse.Namespace) -> tuple[Experiment, Any]:
    common: dict[str, Any] = {"jobs": args.jobs, "quick": args.quick, "device": args.device}
    common |= {"seeds": args.seeds, "out": args.out / args.what, "page": args.page}
    if args.what == "avatar":
        return avatar.EXPERIMENT, avatar.AvatarSettings(**common)
    return mask_dp.EXPERIMENT, mask_dp.MaskDpSettings(render=True, **common)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("films", "avatar", "render"))
    parser.add_argument("--videos", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    data = Stage(videos=args.videos, seed=args.seed)
    if args.what == "films":
        films = AvatarFilms.of(size_stage(data, is_quick=args.quick))
        films.make(jobs=args.jobs, progress=Said())
        return
    experiment, given = choose_experiment(args)
    settings = given.settle(data)
    journal = Journal.open(settings, data)
    found = experiment.measure(Run(settings=settings, data=data, journal=journal, progress=Said()))
    print("\n".join(experiment.write_page(found).publish(given, data, journal).lines))


if __name__ == "__main__":
    main()
