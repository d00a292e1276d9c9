"""Claim: five times as many records a second as Opacus, and at most 1.3 times as long as SGD.

MViT with random weights learns its head and last norms from made-up films. Ours is the library's
own loop, with Poisson batches, fill-ups and exact noise; behind a frozen trunk that runs at every
step, and with the trunk's output kept, as it is after the first epoch. Beside it stand Opacus 1.6
(its hooks on the network as torchvision makes it, and on our modules; batches of one size) and
plain SGD on our modules. Then everything in the small network is trained. CPU time on one thread.
Each line is a process of its own, so memory is its own: the peak of the whole process. About five
minutes; three with ``--quick``.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import tyro

from masquerade.networks import mvit_layers, weight_files
from masquerade.noise import Noise
from masquerade.training import loop
from masquerade.training.methods import DpSgd
from masquerade.training.plan import PoissonSampling, TrainingPlan
from masquerade.training.rows import Rows

CLASSES = 51
PHYSICAL = {"mvit_v2_s": 1, "mvit_small": 4}  # records at once, ours
BATCHES = {"mvit_v2_s": 4, "mvit_small": 16}
WARM, STEPS, QUICK_STEPS = 1, {"mvit_v2_s": 2, "mvit_small": 10}, {"mvit_v2_s": 1, "mvit_small": 3}
LEAST_FASTER, MOST_SLOWER = 5.0, 1.3
METHOD = DpSgd(epsilon=8.0, unit="video")


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is measured, in a process of its own.

    Args:
        network: its name.
        who: a key of `WHO`.
        part: of the network that is trained.
        is_kept: whether the trunk's output is.
        batch: records, on average where it is ours.
        steps: that are timed.
    """

    network: str
    who: str
    part: str = "last_norms"
    is_kept: bool = False
    batch: int = 8
    steps: int = 3


class Counted(Noise):
    """Remembers how many were in each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def sample_poisson_batch(self, sampling_prob: float, count: int) -> np.ndarray:  # noqa: D102
        drawn = super().sample_poisson_batch(sampling_prob, count)
        self.sizes.append(int(drawn.sum()))
        return drawn


def stage(case: Case) -> tuple[Any, Any, Any]:
    """Trunk, tail, and twice a batch of what the first that runs is given."""
    torch.manual_seed(0)
    seen = mvit_layers.NORMALISATION[case.network]
    count = 1 if case.is_kept else 2 * case.batch
    films = torch.rand(count, 3, seen.frames, seen.size_px, seen.size_px)
    trunk, tail = mvit_layers.split_mvit(
        mvit_layers.make_mvit(case.network, classes=CLASSES), case.part
    )
    if case.is_kept:
        with torch.no_grad():
            films = torch.rand(2 * case.batch, *trunk(films).shape[1:])
        trunk = torch.nn.Identity()
    return trunk, tail, films


def ours(case: Case) -> float:
    """Seconds a record."""
    trunk, tail, films = stage(case)
    plan = TrainingPlan(
        sampler=PoissonSampling(units=len(films), expected=case.batch),
        steps=WARM + case.steps,
        clip_norm=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
    )
    rows = Rows(
        private=films,
        public=None,
        targets=torch.arange(len(films)) % CLASSES,
        slots=np.arange(len(films))[:, None],
        trunk=None if case.is_kept else trunk,
    )
    noise, ticks = Counted(), [0.0]
    work = loop.Workload(physical=PHYSICAL[case.network])
    loop.run_training(
        tail,
        rows,
        METHOD,
        plan,
        noise=noise,
        work=work,
        progress=lambda *_: ticks.append(time.process_time()),
    )
    return (ticks[-1] - ticks[WARM]) / sum(noise.sizes[WARM:])


def stepped(case: Case, step: Callable[[Any, Any], None], films: Any) -> float:
    """Seconds a record, of steps over batches of one size."""
    targets = torch.arange(len(films)) % CLASSES
    for number in range(WARM + case.steps):
        if number == WARM:
            start = time.process_time()
        chosen = torch.randperm(len(films))[: case.batch]
        step(films[chosen], targets[chosen])
    return (time.process_time() - start) / (case.steps * case.batch)


def sgd(case: Case) -> float:
    trunk, tail, films = stage(case)
    weights = [held for held in tail.parameters() if held.requires_grad]
    best = torch.optim.SGD(weights, lr=0.1, momentum=0.9)

    def step(inputs: Any, targets: Any) -> None:
        with torch.no_grad():
            inputs = trunk(inputs)
        best.zero_grad()
        torch.nn.functional.cross_entropy(tail(inputs), targets).backward()
        best.step()

    return stepped(case, step, films)


def opacus(case: Case, net: Any | None = None) -> float:
    """Its hooks on our modules, or on another network."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    trunk, tail, films = stage(case)
    hooked = GradSampleModule(net or torch.nn.Sequential(trunk, tail), loss_reduction="mean")
    weights = [held for held in hooked.parameters() if held.requires_grad]
    best = DPOptimizer(
        torch.optim.SGD(weights, lr=0.1, momentum=0.9),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=case.batch,
    )

    def step(inputs: Any, targets: Any) -> None:
        best.zero_grad()
        torch.nn.functional.cross_entropy(hooked(inputs), targets).backward()
        best.step()

    return stepped(case, step, films)


def published(case: Case, *, frozen: str = "nothing") -> float:
    """Opacus on torchvision's modules as they are."""
    seen = mvit_layers.NORMALISATION[case.network]
    if case.network == "mvit_v2_s":
        net = weight_files.mvit_v2_s(num_classes=CLASSES, stochastic_depth_prob=0.0)
    else:
        net = weight_files.MViT(
            spatial_size=(seen.size_px, seen.size_px),
            temporal_size=seen.frames,
            block_setting=[
                mvit_layers._make_block_setting(*row) for row in mvit_layers._SMALL_SETTINGS
            ],
            residual_pool=True,
            residual_with_cls_embed=False,
            rel_pos_embed=True,
            proj_after_attn=True,
            num_classes=CLASSES,
        )
    net.head[0] = torch.nn.Identity()
    trained = set(mvit_layers.list_trainable_names(net, case.part))
    for name, held in net.named_parameters():
        held.requires_grad_(name in trained and frozen not in name)
    return opacus(case, net)


def without_positions(case: Case) -> float:
    return published(case, frozen="rel_pos")


WHO = {
    "sgd": sgd,
    "ours": ours,
    "opacus": published,
    "opacus, our modules": opacus,
    "opacus, positions frozen": without_positions,
}


def here(case: Case) -> dict[str, Any]:
    """What it takes in this process, or why it does not work."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        seconds = WHO[case.who](case)
    except Exception as error:  # the peer's reason is part of the answer
        if case.who in ("ours", "sgd"):
            raise
        return {"failed": f"{type(error).__name__}: {error}"[:160]}
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "megabytes": kilobytes * 1024 / 1e6}


def alone(case: Case) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--one", json.dumps(vars(case))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def line(what: str, found: dict[str, Any], peer: dict[str, Any]) -> None:
    if "failed" in found:
        print(f"  {what:<34}fails: {found['failed']}", flush=True)
        return
    ratios = (
        f"{found['seconds'] / peer['seconds']:>8.2f}{found['megabytes'] / peer['megabytes']:>9.2f}"
    )
    print(f"  {what:<34}{1 / found['seconds']:>9.2f}{found['megabytes']:>9.0f}{ratios}", flush=True)


def heads(title: str) -> None:
    print(f"{title}\n  {'':<34}{'records/s':>9}{'MB':>9}{'x SGD time':>11}{'memory':>7}")


def last_norms(network: str, batch: int, steps: int) -> None:
    heads(f"{network}, head and last norms, batches of {batch}")
    found = {}
    for is_kept in (False, True):
        for who in ("sgd", *(() if is_kept else ("opacus",)), "opacus, our modules", "ours"):
            case = Case(network=network, who=who, is_kept=is_kept, batch=batch, steps=steps)
            found[who, is_kept] = alone(case)
            line(
                f"{who}{', trunk kept' if is_kept else ''}",
                found[who, is_kept],
                found["sgd", is_kept],
            )
    seconds = {key: one.get("seconds", float("nan")) for key, one in found.items()}
    faster = seconds["opacus", False] / seconds["ours", True]
    same = seconds["opacus, our modules", True] / seconds["ours", True]
    slower = seconds["ours", False] / seconds["sgd", False]
    print(f"  ours, trunk kept, over Opacus: {faster:.1f} times the records a second", end="; ")
    print(f"target >= {LEAST_FASTER:g}: {verdict(faster >= LEAST_FASTER)}")
    print(f"  the same over Opacus on what the trunk gave: {same:.2f} times")
    print(f"  ours over SGD, trunk run by both: {slower:.2f} times the time", end="; ")
    print(f"target <= {MOST_SLOWER:g}: {verdict(slower <= MOST_SLOWER)}", flush=True)


def everything(network: str, batch: int, steps: int) -> None:
    heads(f"{network}, everything, batches of {batch}")
    peer = None
    for who in ("sgd", "opacus", "opacus, positions frozen", "ours"):
        found = alone(Case(network=network, who=who, part="all", batch=batch, steps=steps))
        peer = peer or found
        line(who, found, peer)


def verdict(is_met: bool) -> str:
    return "pass" if is_met else "miss"


def main(quick: bool = False, one: str | None = None) -> None:
    """Measure everything, or one case.

    Args:
        quick: fewer steps.
        one: a case as JSON; prints what it took.
    """
    if one is not None:
        print(json.dumps(here(Case(**json.loads(one)))))
        return
    steps = QUICK_STEPS if quick else STEPS
    print(f"one thread, CPU time, torch {torch.__version__}, Opacus {version('opacus')}")
    for network, batch in BATCHES.items():
        last_norms(network, batch, steps[network])
    everything("mvit_small", BATCHES["mvit_small"], steps["mvit_small"])


if __name__ == "__main__":
    tyro.cli(main)
