"""Claim: 100 LSTM teachers train 20 times as fast stacked as one after the other, on an H200.

Windows of 6 channels x 100 steps, hidden 64, Adam, the same batches. The peer is torch.nn.LSTM
(cuDNN) in a plain loop; a second peer is that loop captured in a graph, which few would write. Ours
is `fit` as a whole, capture included, and a replayed step alone. First both must give the same
networks. Skips politely without a GPU; half a minute.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from masquerade.networks import lstm_stack
from masquerade.networks.lstm_stack import LSTM, LstmStack, StackSchedule

TEACHERS, LENGTH, CHANNELS, CLASSES, HIDDEN = 100, 100, 6, 8, 64
RECORDS, EPOCHS = 320, 20  # of each teacher
PEER_STEPS = 5
RATE, SEED, TARGET = 1e-3, 0, 20


def quiet(_: int, __: int) -> None:
    """Show nothing."""


def clocked(work: Callable[[], object], *, repeats: int) -> float:
    """Seconds by the clock, the median after a first time."""
    took = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - start)
    return statistics.median(took[1:])


class World:
    """Records of every teacher, and their networks."""

    def __init__(self) -> None:
        generator = torch.Generator("cuda").manual_seed(SEED)
        sizes = (TEACHERS, RECORDS, LENGTH, CHANNELS)
        self.windows = torch.randn(sizes, generator=generator, device="cuda")
        self.targets = (self.windows[..., 0].mean(dim=2) * 10).round().long() % CLASSES
        torch.manual_seed(SEED)
        self.start = lstm_stack.make_random_stack(TEACHERS, CHANNELS, CLASSES, hidden=HIDDEN).cuda()

    def stack(self) -> LstmStack:
        """The networks as they start."""
        return LstmStack([self.start.copy_member(teacher) for teacher in range(TEACHERS)])

    def fit(self, stack: LstmStack, *, batch: int, epochs: int) -> None:
        """Train all of them, ours."""
        schedule = StackSchedule(epochs=epochs, batch=batch, rate=RATE, seed=SEED)
        lstm_stack.train_stack(stack, self.windows, self.targets, schedule, progress=quiet)


def step(world: World, net: LSTM, best: Any, teacher: int, places: Any) -> None:
    best.zero_grad()
    said = net(world.windows[teacher, places])
    torch.nn.functional.cross_entropy(said, world.targets[teacher, places]).backward()
    best.step()


def taught(world: World, net: LSTM, best: Any, teacher: int, *, batch: int, steps: int) -> None:
    """A teacher by the usual loop, with the batches that `fit` gives it."""
    rng = np.random.default_rng((SEED, teacher))
    order = torch.from_numpy(rng.permutation(RECORDS)).cuda()
    for places in order.split(batch)[:steps]:
        step(world, net, best, teacher, places)


def alone(world: World, *, is_captured: bool = False) -> tuple[list[LSTM], list[Any]]:
    """Every teacher by itself, and its optimiser."""
    nets = [world.start.copy_member(teacher) for teacher in range(TEACHERS)]
    bests = [
        torch.optim.Adam(net.parameters(), lr=RATE, fused=True, capturable=is_captured)
        for net in nets
    ]
    return nets, bests


def captured(world: World, batch: int) -> float:
    """Seconds of a step of all teachers, one after the other in one graph."""
    nets, bests = alone(world, is_captured=True)
    places = torch.arange(batch, device="cuda")

    def every() -> None:
        for teacher, (net, best) in enumerate(zip(nets, bests, strict=True)):
            step(world, net, best, teacher, places)

    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        every()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=side):
        every()
    return clocked(graph.replay, repeats=5)


def replayed(world: World, batch: int) -> float:
    """Seconds of a step of ours, once it is captured."""
    schedule = StackSchedule(batch=batch, rate=RATE)
    work = lstm_stack._TrainingStep(world.stack(), world.windows, world.targets, schedule)
    places = torch.arange(batch, device="cuda").expand(TEACHERS, -1)
    for _ in range(5):
        work.take_step(places)
    return clocked(lambda: work.take_step(places), repeats=20)


def check(world: World) -> float:
    """Both ways to train give the same networks, in full float32; how far logits are apart."""
    torch.backends.cudnn.allow_tf32 = False
    stack, far = world.stack(), 0.0
    world.fit(stack, batch=32, epochs=1)
    said = stack(world.windows[:, :64]).detach()
    nets, bests = alone(world)
    for teacher in (0, TEACHERS // 2, TEACHERS - 1):
        taught(world, nets[teacher], bests[teacher], teacher, batch=32, steps=RECORDS)
        gap = nets[teacher](world.windows[teacher, :64]).detach() - said[teacher]
        far = max(far, float(gap.abs().max()))
    torch.backends.cudnn.allow_tf32 = True
    if far > 1e-3:
        raise SystemExit(f"Stacked teachers differ from those trained alone by {far:.1e}.")
    return far


def measured(world: World, batch: int) -> dict[str, float]:
    nets, bests = alone(world)
    stack = world.stack()

    def peer() -> None:
        for teacher, (net, best) in enumerate(zip(nets, bests, strict=True)):
            taught(world, net, best, teacher, batch=batch, steps=PEER_STEPS)

    steps = EPOCHS * RECORDS // batch
    torch.cuda.reset_peak_memory_stats()
    found = {
        "batch": batch,
        "ours": clocked(lambda: world.fit(stack, batch=batch, epochs=EPOCHS), repeats=2) / steps,
        "gigabytes": torch.cuda.max_memory_allocated() / 2**30,
        "replayed": replayed(world, batch),
        "peer": clocked(peer, repeats=2) / PEER_STEPS,
        "captured": captured(world, batch),
    }
    ratio = found["peer"] / found["ours"]
    print(f"batch {batch}, milliseconds of a step of {TEACHERS} teachers; ratio is peer / ours")
    print(f"  one after the other {1e3 * found['peer']:.1f}, ours {1e3 * found['ours']:.2f} over")
    print(f"  {steps} steps, capture included: ratio {ratio:.1f}, {found['gigabytes']:.1f} GiB")
    print(f"  ours, a replayed step: {1e3 * found['replayed']:.2f}")
    print(f"  one after the other, captured: {1e3 * found['captured']:.1f}, ", end="")
    print(f"ratio {found['captured'] / found['replayed']:.1f} to a replayed step")
    print(f"  target >= {TARGET}: {'pass' if ratio >= TARGET else 'miss'}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write all figures to this file, as JSON")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("Expected a GPU; nothing was measured.")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    world = World()
    far = check(world)
    print(f"the same networks both ways, logits at most {far:.1e} apart", flush=True)
    found = {"apart": far, "rows": [measured(world, batch) for batch in (16, 32)]}
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
