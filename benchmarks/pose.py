"""TinyViT with a head for joints at 256 x 192: what clipping each record costs, and inference.

Private steps (every record's own gradient, clipped, put on the grid and summed) in chunks, beside a
loop over records and plain SGD; inference beside timm's forward where timm is there. One thread of
the processor, or the GPU:

    python benchmarks/pose.py
    python benchmarks/pose.py --device cuda --batch 64
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from masquerade._torch import Tensor, torch
from masquerade.networks import tiny_vit_pose
from masquerade.training import loop
from masquerade.training.method import make_training_plan
from masquerade.training.methods import DpSgd
from masquerade.training.rows import Rows
from masquerade.training.step import PrivateSum

JOINTS, TRIES = 16, 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--network", default="tiny_vit_5m")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--chunks", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--parts", nargs="+", default=["all", "last_stage", "head"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = tiny_vit_pose.JointFinder(given.network, JOINTS).to(given.device)
    crops = torch.randn(given.batch, 3, 256, 192, device=given.device)
    spread = torch.tensor([192.0, 256.0, 1.0], device=given.device)
    targets = torch.rand(given.batch, JOINTS, 3, device=given.device) * spread
    print(f"{given.network}, {given.batch} records a step, {given.device}")
    for part in given.parts:
        steps(net, part, crops, targets, given.chunks)
    inference(net, crops, given)


def steps(net: Any, part: str, crops: Tensor, targets: Tensor, chunks: list[int]) -> None:
    """One update in each way; a part's trunk is run with it."""
    trunk, tail = tiny_vit_pose.split_joint_finder(net, part)
    weights = {name: held for name, held in tail.named_parameters() if held.requires_grad}
    size = sum(held.numel() for held in weights.values())
    plain = timed(lambda: plain_step(trunk, tail, crops, targets), crops)
    print(f"{part}, {size:,} weights: plain SGD {plain[0]:.3f} s, {plain[1]:,.0f} MB")
    every = np.arange(len(crops))
    for chunk in chunks:
        total = private_sum(trunk, tail, crops, targets, chunk)
        total.sum_cells(every)  # the first call is plain, the second recorded
        took = timed(lambda done=total: done.sum_cells(every), crops)
        way = "one record at a time" if chunk == 1 else f"{chunk} at once"
        ratio, memory = took[0] / plain[0], took[1] / plain[1]
        print(f"  clipped, {way}: {took[0]:.3f} s, x{ratio:.2f}; {took[1]:,.0f} MB, x{memory:.2f}")


def plain_step(trunk: Any, tail: Any, crops: Tensor, targets: Tensor) -> None:
    tail.zero_grad()
    with torch.no_grad():
        seen = trunk(crops)
    tail.losses(tail(seen), targets).mean().backward()


def private_sum(trunk: Any, tail: Any, crops: Tensor, targets: Tensor, chunk: int) -> PrivateSum:
    """What `masquerade train` adds a batch up with; on a GPU it records its kernels."""
    units = len(crops)
    method = DpSgd(epsilon=8.0, delta=1e-5, unit="record", batch=units, clip_norm=1.0)
    rows = Rows(
        private=crops, public=None, targets=targets, slots=np.arange(units)[:, None], trunk=trunk
    )
    weights = {name: held for name, held in tail.named_parameters() if held.requires_grad}
    work = loop.Workload(physical=chunk)
    return loop.private_sum(
        tail, rows, method, make_training_plan(method, 10 * units), weights, work
    )


def inference(net: Any, crops: Tensor, given: argparse.Namespace) -> None:
    """Photos a second, beside timm's forward of the same backbone."""
    net.eval()
    with torch.no_grad():
        ours = timed(lambda: net(crops), crops)[0]
        print(f"inference: {len(crops) / ours:.1f} photos/s with the head")
        try:
            from masquerade.networks import weight_files as torchvision  # noqa: F401  (timm imports it)

            timm = __import__("timm")
        except ImportError:
            return
        model = timm.create_model(f"{given.network}_224", num_classes=0).to(given.device).eval()
        theirs = timed(lambda: model.forward_features(crops), crops)[0]
        mine = timed(lambda: net.backbone(crops), crops)[0]
    print(
        f"  backbone: timm {len(crops) / theirs:.1f} photos/s, ours {len(crops) / mine:.1f}, "
        f"x{theirs / mine:.2f}"
    )


def timed(work: Callable[[], Any], crops: Tensor) -> tuple[float, float]:
    """Seconds (CPU, or wall clock on a GPU), the least of several, and the most MB in use.

    On a GPU that is what is set apart, which what was recorded keeps for itself.
    """
    is_gpu = crops.device.type == "cuda"
    work()
    if is_gpu:
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    best = float("inf")
    for _ in range(TRIES):
        begun = time.perf_counter() if is_gpu else time.process_time()
        work()
        if is_gpu:
            torch.cuda.synchronize()
        best = min(best, (time.perf_counter() if is_gpu else time.process_time()) - begun)
    if is_gpu:
        return best, torch.cuda.max_memory_reserved() / 2**20
    return best, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
