"""What it costs to find the subspace anew, against weights p and directions k; beside an SVD.

Gradients are made up: those of real records cost what training on them costs. CPU time, one thread.
Run: OMP_NUM_THREADS=1 python benchmarks/subspace.py [--large]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from masquerade.noise import Noise
from masquerade.training import subspace
from masquerade.training.subspace import Subspace

SIZES = (46_480, 401_445, 682_877)  # head, last stage, all of tiny_vit_small
LARGE = 5_100_000  # TinyViT-5m
RECORDS = (30, 100)


def main() -> None:
    """Print one line a size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="TinyViT-5m too: 2 GB of memory")
    sizes = (*SIZES, LARGE) if parser.parse_args().large else SIZES
    torch.set_num_threads(1)
    print("weights directions held   renew_s svd_s ratio  along_16_s  noise_p_s noise_k_s")
    for size in sizes:
        for records in RECORDS:
            row(size, records)


def row(size: int, records: int) -> None:
    """One line."""
    gradients = torch.randn(records, size, generator=torch.Generator().manual_seed(0))
    weights = {"w": gradients[0].clone()}

    def each(_: Any, start: int, stop: int) -> dict[str, torch.Tensor]:
        return {"w": gradients[start:stop]}

    space = Subspace(weights, records=records, directions=records, each=each)
    renewed = timed(lambda: space.renew_directions(weights, chunk=16))
    peer = timed(lambda: torch.linalg.svd(gradients, full_matrices=False)) if size < LARGE else None
    some = {"w": gradients[:16]}
    along = timed(lambda: space.measure_along(some))
    noise = [
        timed(lambda n=n: Noise().sample_gaussian(1.0, n, grid=2.0**-20)) for n in (size, records)
    ]
    kind = "half" if records * size > subspace._MAX_FULL_NUMBERS else "float"
    ratio = f"{'-':>6s} {'-':>5s}" if peer is None else f"{peer:6.2f} {peer / renewed:5.1f}"
    print(
        f"{size:7d} {records:10d} {kind:5s} {renewed:8.2f} {ratio} {along:10.3f} "
        f"{noise[0]:10.3f} {noise[1]:9.4f}"
    )


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of the second call."""
    work()
    begun = time.process_time()
    work()
    return time.process_time() - begun


if __name__ == "__main__":
    main()
