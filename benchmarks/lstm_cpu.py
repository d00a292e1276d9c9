"""Claim: every record's gradient of an LSTM costs a sixth of Opacus's at most, on one thread.

LSTM of 2 layers, hidden 128, on windows of 6 channels x 200 steps, 64 records. Peers: the hooks of
Opacus 1.6 on its DPLSTM, whose gradients ours must equal, and plain SGD, which has none of a
record's own. Gradients that fade below 1e-38 count as 0 for all of them: without that, SGD alone
takes ten times as long. Then 100 teachers on all cores of this machine, stacked against one after
the other; other jobs on the same cores spoil that ratio. Two minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.layers import DPLSTM

from masquerade.networks import lstm_stack
from masquerade.networks.lstm_stack import LstmStack

RECORDS, STEPS, CHANNELS, CLASSES, HIDDEN, LAYERS = 64, 200, 6, 8, 128, 2
TARGET = 6
TEACHERS, BATCH, LENGTH, SIZE, BATCHES = 100, 32, 100, 64, 10  # batches: steps of each teacher
CORES = torch.get_num_threads()


class Private(torch.nn.Module):
    """The same network of Opacus's own layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = DPLSTM(CHANNELS, HIDDEN, LAYERS, batch_first=True)
        self.head = torch.nn.Linear(HIDDEN, CLASSES)

    def forward(self, windows: Any) -> Any:
        """Logits from the mean hidden state."""
        return self.head(self.lstm(windows)[0].mean(dim=1))


def seconds(work: Callable[[], object], *, repeats: int) -> float:
    """CPU time, the least of several."""
    work()
    took = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        took.append(time.process_time() - start)
    return min(took)


def gradients_of_records() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = lstm_stack.LSTM(CHANNELS, CLASSES, HIDDEN, LAYERS)
    weights = dict(net.named_parameters())
    windows = torch.randn(RECORDS, STEPS, CHANNELS)
    targets = torch.arange(RECORDS) % CLASSES
    wanted = (targets, torch.ones(RECORDS))
    plain = Private()
    plain.lstm.load_state_dict(net.lstm.state_dict())
    plain.head.load_state_dict(net.head.state_dict())
    hooked = GradSampleModule(plain, loss_reduction="sum")

    def backward(some: Any) -> None:
        some.zero_grad()
        loss = torch.nn.functional.cross_entropy(some(windows), targets, reduction="sum")
        loss.backward()

    backward(hooked)
    theirs = [w.grad_sample.flatten(1).norm(dim=1) for w in hooked.parameters()]
    ours = [g.flatten(1).norm(dim=1) for g in net.per_record(weights, windows, wanted).values()]
    theirs, ours = (torch.stack(norms).norm(dim=0) for norms in (theirs, ours))
    if not torch.allclose(theirs, ours, rtol=1e-4):
        raise SystemExit("The gradients of records are not those of Opacus.")
    slow = seconds(lambda: backward(net), repeats=1)
    torch.set_flush_denormal(True)
    own = seconds(lambda: net.per_record(weights, windows, wanted), repeats=5)
    peer = seconds(lambda: backward(hooked), repeats=3)
    sgd = seconds(lambda: backward(net), repeats=5)
    print(f"gradients of {RECORDS} records, CPU seconds, one thread; equal to Opacus's")
    print(f"  Opacus, DPLSTM with hooks {peer:.2f}, ours {own:.3f}, ratio {peer / own:.1f}")
    print(
        f"  SGD, nn.LSTM {sgd:.3f} (tiny numbers counted: {slow:.3f}), ours / SGD {own / sgd:.2f}"
    )
    print(f"  target >= {TARGET}: {'pass' if peer / own >= TARGET else 'miss'}")


def one_after_the_other(stack: LstmStack, windows: Any, targets: Any) -> None:
    """Every teacher by a plain loop over its batches."""
    for teacher in range(len(stack)):
        net = stack.copy_member(teacher)
        best = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
        order = np.random.default_rng((0, teacher)).permutation(windows.shape[1])
        for some in torch.from_numpy(order).split(BATCH):
            best.zero_grad()
            said = net(windows[teacher, some])
            torch.nn.functional.cross_entropy(said, targets[teacher, some]).backward()
            best.step()


def clocked(name: str, work: Callable[[], object], *, repeats: int = 2) -> float:
    """Milliseconds by the clock for a step of all teachers, the least of several."""
    took = []
    for _ in range(repeats):
        start, busy = time.perf_counter(), time.process_time()
        work()
        spent = (time.perf_counter() - start, time.process_time() - busy)
        took.append([1000 * each / BATCHES for each in spent])
    wall, cpu = min(took)
    print(f"  {name:<34}{wall:>6.0f} ms by the clock, {cpu:.0f} ms of cores", flush=True)
    return wall


def teachers() -> None:
    torch.manual_seed(0)
    records = BATCHES * BATCH
    windows = torch.randn(TEACHERS, records, LENGTH, CHANNELS)
    targets = torch.randint(0, CLASSES, (TEACHERS, records))
    schedule = lstm_stack.StackSchedule(epochs=1, batch=BATCH, rate=1e-3)
    stack = lstm_stack.make_random_stack(TEACHERS, CHANNELS, CLASSES, hidden=SIZE)

    def together() -> None:
        lstm_stack.train_stack(stack, windows, targets, schedule, progress=lambda done, total: None)

    print(f"{TEACHERS} teachers, batches of {BATCH}, a step of all")
    torch.set_num_threads(1)
    peer = clocked(
        "one after the other, one thread", lambda: one_after_the_other(stack, windows, targets)
    )
    torch.set_num_threads(CORES)
    ours = clocked(f"ours, in {CORES} threads", together)
    print(f"  ratio {peer / ours:.2f}")


if __name__ == "__main__":
    gradients_of_records()
    teachers()
