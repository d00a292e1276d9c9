"""Claim: private training takes 1.25 times as long as SGD at most, and 1.3 times the room (H200).

Of everything, 1.3 times as long.

MViT-v2-S with random weights learns from films of 16 x 224 x 224 that lie on the device. Trained
are the head and the last norms, behind a frozen trunk that both run at every step; then with the
trunk's output kept; then everything. Ours is the library's own loop: Poisson batches, fill-ups,
exact noise, replayed. The peer is plain SGD with batches of one size, neither clipped nor noised,
as it is written; beside it the same, replayed as ours is. Memory is what is taken from the device
beyond weights and films. Skips politely without a GPU; about six minutes, two with ``--quick``.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from masquerade.networks import mvit_layers
from masquerade.noise import Noise
from masquerade.report import plots
from masquerade.training import loop
from masquerade.training.loop import Workload
from masquerade.training.methods import DpSgd
from masquerade.training.plan import PoissonSampling, TrainingPlan
from masquerade.training.rows import Rows
from masquerade.training.step import ReplayedFunction

NETWORK, CLASSES, FILMS = "mvit_v2_s", 51, 512
WARM, TIMED, LEAST = 3, 5, 256  # steps, and records that are timed at least
MOST_TIME, MOST_TIME_ALL, MOST_MEMORY = 1.25, 1.3, 1.3
METHOD = DpSgd(epsilon=8.0, unit="video")
MODES = ("float32", "tf32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is measured.

    Args:
        part: of the network that is trained.
        mode: how products are computed; tf32 and bfloat16 are rounded, weights never are.
        batch: records, on average where it is private.
        physical: records at once.
        is_private: whether it is ours, or SGD.
        is_cached: whether the trunk's output is kept.
        is_replayed: whether SGD's kernels are; ours always are.
    """

    part: str = "last_norms"
    mode: str = "bfloat16"
    batch: int = 128
    physical: int = 16
    is_private: bool = True
    is_cached: bool = False
    is_replayed: bool = False

    @property
    def timed(self) -> int:
        """Steps."""
        return max(TIMED, LEAST // self.batch)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What it took, a record."""

    case: Case
    seconds: float
    gigabytes: float
    weights: int


class Counted(Noise):
    """Remembers how many were in each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def sample_poisson_batch(self, sampling_prob: float, count: int) -> np.ndarray:  # noqa: D102
        drawn = super().sample_poisson_batch(sampling_prob, count)
        self.sizes.append(int(drawn.sum()))
        return drawn


class Clock:
    """Seconds and memory of the steps after the first ones."""

    def __init__(self) -> None:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.before = torch.cuda.memory_allocated()
        self.steps = 0

    def tick(self, *_: int) -> None:
        """Call after every step."""
        torch.cuda.synchronize()
        self.steps += 1
        if self.steps == WARM:
            self.start = time.perf_counter()
        self.seconds = time.perf_counter() - self.start if self.steps > WARM else 0.0

    def gigabytes(self) -> float:
        """At most; a replay's memory is only seen where it is taken from the device."""
        return (torch.cuda.max_memory_reserved() - self.before) / 2**30


def stage(case: Case, films: Any) -> tuple[Any, Rows]:
    """The tail, and rows in front of it."""
    torch.manual_seed(0)
    trunk, tail = mvit_layers.split_mvit(
        mvit_layers.make_mvit(NETWORK, classes=CLASSES).cuda(), case.part
    )
    private = films
    if case.is_cached:
        with torch.no_grad(), loop.lower_precision("cuda", "bfloat16"):
            private = torch.cat([trunk(some).float() for some in films.split(16)])
    rows = Rows(
        private=private,
        public=None,
        targets=torch.arange(len(films), device="cuda") % CLASSES,
        slots=np.arange(len(films))[:, None],
        trunk=None if case.is_cached else trunk,
    )
    return tail, rows


def ours(case: Case, tail: Any, rows: Rows) -> tuple[float, float]:
    """Seconds a record, and gigabytes."""
    plan = TrainingPlan(
        sampler=PoissonSampling(units=rows.num_units, expected=case.batch),
        steps=WARM + case.timed,
        clip_norm=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
    )
    noise, clock = Counted(), Clock()
    precision = "bfloat16" if case.mode == "bfloat16" else "float32"
    work = Workload(physical=case.physical, precision=precision)
    loop.run_training(tail, rows, METHOD, plan, noise=noise, work=work, progress=clock.tick)
    return clock.seconds / sum(noise.sizes[WARM:]), clock.gigabytes()


def sgd(case: Case, tail: Any, rows: Rows) -> tuple[float, float]:
    """The same for the mean gradient, without clipping and noise."""
    weights = [held for held in tail.parameters() if held.requires_grad]
    for held in weights:
        held.grad = torch.zeros_like(held)
    best, clock = torch.optim.SGD(weights, lr=0.1, momentum=0.9), Clock()

    def add(inputs: Any, targets: Any) -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=case.mode == "bfloat16"):
            if rows.trunk is not None:
                with torch.no_grad():
                    inputs = rows.trunk(inputs)
            out = tail(inputs)
        loss = torch.nn.functional.cross_entropy(out.float(), targets, reduction="sum")
        if not case.is_replayed:
            (loss / case.batch).backward()
            return
        found = torch.autograd.grad(loss / case.batch, weights, materialize_grads=True)
        for held, gradient in zip(weights, found, strict=True):
            held.grad += gradient

    piece = ReplayedFunction(add, is_on=case.is_replayed)
    for _ in range(WARM + case.timed):
        chosen = torch.randperm(rows.num_units, device="cuda")[: case.batch]
        best.zero_grad(set_to_none=not case.is_replayed)
        for some in chosen.split(case.physical):
            piece(rows.private[some], rows.targets[some])
        best.step()
        clock.tick()
    return clock.seconds / (case.timed * case.batch), clock.gigabytes()


def measured(case: Case, films: Any) -> Found:
    torch.set_float32_matmul_precision("highest" if case.mode == "float32" else "high")
    torch.backends.cudnn.allow_tf32 = case.mode != "float32"
    tail, rows = stage(case, films)
    work: Callable[..., tuple[float, float]] = ours if case.is_private else sgd
    seconds, gigabytes = work(case, tail, rows)
    weights = sum(held.numel() for held in tail.parameters() if held.requires_grad)
    del tail, rows
    gc.collect()
    torch.cuda.empty_cache()
    return Found(case=case, seconds=seconds, gigabytes=gigabytes, weights=weights)


def beside(case: Case, films: Any) -> list[Found]:
    """One line: SGD, SGD replayed, ours, and ours / SGD."""
    peer = measured(replace(case, is_private=False), films)
    other = measured(replace(case, is_private=False, is_replayed=True), films)
    own = measured(case, films)
    time_ratio, memory_ratio = own.seconds / peer.seconds, own.gigabytes / peer.gigabytes
    what = f"{case.part}{', kept' if case.is_cached else ''}"
    most = MOST_TIME_ALL if case.part == "all" else MOST_TIME
    is_met = time_ratio <= most and memory_ratio <= MOST_MEMORY
    print(
        f"{what:<18}{case.mode:<10}{case.batch:>6}{case.physical:>5}{own.weights:>12,}"
        f"{1 / peer.seconds:>9.0f}{1 / other.seconds:>9.0f}{1 / own.seconds:>9.0f}"
        f"{time_ratio:>7.2f}{own.seconds / other.seconds:>7.2f}"
        f"{peer.gigabytes:>8.2f}{own.gigabytes:>8.2f}{memory_ratio:>7.2f}"
        f"  {'pass' if is_met else 'miss'}",
        flush=True,
    )
    return [peer, other, own]


def noise_share(found: list[Found]) -> None:
    """How long the noise of one step takes, of how long the step does."""
    noise = Noise()
    for one in found:
        took = []
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            noise.sample_gaussian_on("cuda", 1.0, one.weights)
            torch.cuda.synchronize()
            took.append(time.perf_counter() - start)
        drawing, step = statistics.median(took), one.seconds * one.case.batch
        what = f"{one.case.part}{', kept' if one.case.is_cached else ''}, {one.case.mode}"
        print(
            f"noise for {one.weights:,} weights: {drawing * 1e3:.2f} ms of a step's "
            f"{step * 1e3:.0f} ({what}): {drawing / step:.2%}"
        )


def curves(films: Any) -> dict[str, list[Found]]:
    """Seconds a record against the size of a batch, and against how much is trained."""
    found: dict[str, list[Found]] = {"batch": [], "weights": []}
    for batch in (8, 16, 32, 64, 128, 256):
        for is_cached in (False, True):
            for is_private in (False, True):
                once = 16 if is_private else min(64, batch)  # fewer would wait for the host
                case = Case(batch=batch, physical=once, is_private=is_private, is_cached=is_cached)
                found["batch"].append(measured(case, films))
    for part in mvit_layers.PARTS:
        for is_private in (False, True):
            case = Case(part=part, batch=64, is_private=is_private)
            found["weights"].append(measured(case, films))
    return found


def draw(told: dict[str, Any], path: Path) -> None:
    """The curves as a picture."""
    names = {(False, False): "SGD", (True, False): "private", (False, True): "SGD, trunk kept"}
    names[True, True] = "private, trunk kept"
    pictures = []
    for key, x_label in (("batch", "records in a batch"), ("weights", "trained weights")):
        lines = []
        for (is_private, is_cached), name in names.items():
            mine = [
                one
                for one in told[key]
                if (one["case"]["is_private"], one["case"]["is_cached"]) == (is_private, is_cached)
            ]
            x = [one["case"]["batch"] if key == "batch" else one["weights"] for one in mine]
            y = [1e3 * one["seconds"] for one in mine]
            if mine:
                lines.append(plots.PlotLine(name=name, x=np.array(x), y=np.array(y)))
        title = f"{NETWORK}, bfloat16, {told['device']}"
        axes = plots.PlotAxes(title=title, x_label=x_label, y_label="ms a record", is_log=True)
        pictures.append(plots.draw_lines(lines, axes))
    top, bottom = (
        text.replace("<svg ", f'<svg y="{at}" width="680" height="380" ', 1)
        for at, text in zip((0, 390), pictures, strict=True)
    )
    whole = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 770">\n{top}\n{bottom}\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(whole + "</svg>\n")


def compare(films: Any, modes: tuple[str, ...]) -> list[Found]:
    print("records a second, and GiB beyond weights and films; ratios are ours / SGD")
    heads = f"{'batch':>6}{'once':>5}{'weights':>12}{'SGD/s':>9}{'replayed':>9}{'ours/s':>9}"
    ratios = f"{'ratio':>7}{'to it':>7}{'SGD':>8}{'ours':>8}{'ratio':>7}  target"
    print(f"{'trained':<18}{'mode':<10}{heads}{ratios}")
    found = []
    for mode in modes:
        found += beside(Case(mode=mode), films)
    for mode in modes:
        found += beside(Case(mode=mode, is_cached=True, physical=32), films)
    for mode in modes:
        if mode != "float32":
            found += beside(Case(mode=mode, part="all", batch=64), films)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write all figures to this file, as JSON")
    parser.add_argument("--quick", action="store_true", help="in bfloat16 alone")
    parser.add_argument("--plot", type=Path, help="draw the curves of the file --out, and end")
    given = parser.parse_args()
    if given.plot is not None:
        draw(json.loads(given.out.read_text()), given.plot)
        return
    if not torch.cuda.is_available():
        print("No GPU here: nothing is measured.")
        return
    device = torch.cuda.get_device_name()
    print(f"{device}, torch {torch.__version__}, {NETWORK}, Python {sys.version.split()[0]}")
    seen = mvit_layers.NORMALISATION[NETWORK]
    films = torch.rand(FILMS, 3, seen.frames, seen.size_px, seen.size_px, device="cuda")
    found = compare(films, MODES[-1:] if given.quick else MODES)
    noise_share([one for one in found if one.case.is_private])
    if given.out is not None:
        told = {key: [asdict(one) for one in many] for key, many in curves(films).items()}
        told |= {"table": [asdict(one) for one in found], "device": device}
        given.out.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
