"""PPEDCRF on a GPU: milliseconds a frame of 192x320, beside the paper's 50 on a GTX 1060.

What is timed is what the paper timed, the random field and the noise, and the logits without
training besides; frames are on the device and the motion is given. Frames come one after the
other, as in a stream: each needs the map of the one before. The steps of a frame are captured as
one graph; noise is drawn afresh for every frame, for some frames at once, exactly, from the same
keystream as on the processor. The mechanism itself runs on the processor
(`benchmarks/ppedcrf.py`): its motion does. Skips politely without a GPU. A minute.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import numpy as np

from masquerade._optional import require_extra
from masquerade.noise import Noise

torch = require_extra("torch", extra="train")
functional = torch.nn.functional
Tensor = torch.Tensor

SIZES = ((192, 320), (720, 1280))
PAPER_MS, TARGET_MS = 50.0, 0.5
SIGMA, STILL, GRID = 16.0, 0.5, 2.0**-20
FRAMES, RUNS = 300, 5
TOGETHER = 30  # frames whose noise is drawn at once: a second
LUMA = (0.299, 0.587, 0.114)
SCHARR = ((-3.0, 0.0, 3.0), (-10.0, 0.0, 10.0), (-3.0, 0.0, 3.0))


def mean(values: Tensor, side: int) -> Tensor:
    """Over squares, mirrored at the border."""
    reach = side // 2
    padded = functional.pad(values, (reach,) * 4, mode="reflect")
    return functional.avg_pool2d(padded, side, stride=1)


def slopes_of(device: str) -> Tensor:
    """The kernels of both slopes; made before a graph is captured, which may copy nothing in."""
    kernel = torch.tensor(SCHARR, device=device) / 16
    return torch.stack([kernel, kernel.T])[:, None]


def evidence(grey: Tensor, moved: Tensor, kernels: Tensor) -> Tensor:
    """Logits without training, as `masquerade.places.place_maps` has them."""
    slopes = functional.conv2d(functional.pad(grey, (1,) * 4, mode="reflect"), kernels)
    strength = slopes.square().sum(1, keepdim=True).sqrt()
    strength = strength * torch.exp((grey - moved).abs() / -12.0)
    found = torch.log1p(mean(strength, 7))
    return 2.0 * (found - found.mean()) / (found.std(correction=0) + 1e-6)


def refined(logits: Tensor, before: Tensor) -> Tensor:
    """Five rounds of the random field, Eq. 2."""
    now = torch.sigmoid(logits)
    for _ in range(5):
        now = torch.sigmoid(logits + 2.0 * (mean(now, 3) - now) + 2.0 * (before - now))
    return now


def places(flow: Tensor) -> Tensor:
    """Where each pixel was, as `grid_sample` wants it."""
    height, width = flow.shape[:2]
    x = torch.arange(width, device=flow.device) + flow[..., 0]
    y = torch.arange(height, device=flow.device)[:, None] + flow[..., 1]
    return torch.stack([2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1], -1)[None]


class Stream:
    """One film: what stays from frame to frame, in memory that a graph may use."""

    def __init__(self, height: int, width: int, device: str, noise: Noise) -> None:
        self.frame = torch.zeros(1, 3, height, width, device=device)
        self.flow = torch.zeros(height, width, 2, device=device)
        self.before = torch.zeros(1, 1, height, width, device=device)
        self.last = torch.full((1, 1, height, width), 0.5, device=device)
        self.amount = torch.zeros_like(self.last)
        self.luma = torch.tensor(LUMA, device=device).view(1, 3, 1, 1)
        self.kernels = slopes_of(device)
        self.noise, self.device = noise, device
        self.stays = self.grains(1)[0]
        self.fresh = torch.zeros_like(self.stays)
        self.made = torch.zeros(self.frame.shape, dtype=torch.uint8, device=device)

    def grains(self, frames: int) -> Tensor:
        """(T, 1, 3, H, W) of variance 1."""
        shape = (frames, *self.frame.shape)
        cells = self.noise.sample_gaussian_on(self.device, 1.0, shape, grid=GRID)
        return cells.float() * GRID

    def mapped(self) -> None:
        """The map of this frame, and how much noise goes where."""
        grey = (self.frame * self.luma).sum(1, keepdim=True)
        sample, where = functional.grid_sample, places(self.flow)
        fields = torch.cat([self.before, self.last], 1)
        warped = sample(fields, where, padding_mode="border", align_corners=True)
        now = refined(evidence(grey, warped[:, :1], self.kernels), warped[:, 1:])
        self.amount.copy_(now * now / (now.max() + 1e-6))
        self.before.copy_(grey)
        self.last.copy_(now)

    def noised(self) -> None:
        """The frame as it is published, with the fresh noise that lies ready."""
        nearest = {"mode": "nearest", "padding_mode": "reflection", "align_corners": True}
        self.stays.copy_(functional.grid_sample(self.stays, places(self.flow), **nearest))
        mixed = math.sqrt(STILL) * self.stays + math.sqrt(1 - STILL) * self.fresh
        made = self.frame + SIGMA * self.amount * mixed
        self.made.copy_(made.round_().clamp_(0, 255))

    def released(self) -> None:
        """All of one frame."""
        self.mapped()
        self.noised()


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """The same as a graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def film(height: int, width: int, count: int, device: str) -> Tensor:
    """Smooth shades and bars that move to the right, (T, 1, 3, H, W)."""
    x = torch.arange(width, device=device)
    y = torch.arange(height, device=device)[:, None]
    frames = [128 + 60 * torch.sin((x - 2 * t) / 9) + 40 * torch.cos(y / 23) for t in range(count)]
    return torch.stack(frames)[:, None, None].expand(-1, 1, 3, height, width).contiguous()


def milliseconds(height: int, width: int) -> float:
    """A frame, the median of some runs; the GPU is waited for at the end of each."""
    stream = Stream(height, width, "cuda", Noise())
    frames = film(height, width, 8, "cuda")
    stream.flow[..., 0] = -2.0
    released = captured(stream.released)
    found = []
    for _ in range(RUNS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for number in range(FRAMES):
            if number % TOGETHER == 0:
                drawn = stream.grains(TOGETHER)
            stream.frame.copy_(frames[number % 8])
            stream.fresh.copy_(drawn[number % TOGETHER])
            released()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - start) / FRAMES * 1e3)
    return statistics.median(found)


def check() -> None:
    """The noise has its strength: sigma times the amount, in two frames of a still film."""
    stream = Stream(192, 320, "cuda", Noise())
    stream.frame.copy_(film(192, 320, 1, "cuda")[0])
    stream.fresh.copy_(stream.grains(1)[0])
    stream.released()
    off = (stream.made.float() - stream.frame) / (SIGMA * stream.amount)
    spread = float(off[stream.amount.expand_as(off) > 0.3].std())
    print(f"noise over sigma times amount: {spread:.3f} (1 is right)")
    if not math.isclose(spread, 1.0, rel_tol=0.05):
        raise SystemExit("the noise has another strength than it should")


def main() -> None:
    if not torch.cuda.is_available():
        print("no GPU here")
        return
    print(torch.cuda.get_device_name(0), torch.__version__, np.__version__)
    check()
    for height, width in SIZES:
        took = milliseconds(height, width)
        print(f"{width}x{height}: {took:.3f} ms a frame", end="")
        print(f", target {TARGET_MS}, the paper {PAPER_MS / took:.0f}x" * (height == 192))


if __name__ == "__main__":
    main()
