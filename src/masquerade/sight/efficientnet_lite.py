"""EfficientNet-Lite0 for torch: a small network that has seen ImageNet, used to compare pictures.

The stages are those of EfficientNet-B0 [tan2019] as the Lite variant changes them: ReLU6
instead of swish, no squeeze-and-excitation, stem and head of fixed width. The published weights
were trained with TensorFlow, so strided convolutions pad as it does: more below and to the right.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade.errors import BadInput

torch = require("torch", extra="train")
nn = torch.nn
Module: Any = nn.Module

Tensor = Any  # torch.Tensor
Network = Any  # torch.nn.Module

SIZE_PX = 224
NUM_FEATURES = 1280
NUM_CLASSES = 1000
_EPSILON = 1e-3  # of every batch norm, as in training
# (blocks, kernel, stride of the first, expansion, channels out)
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


def _convolution(size_in: int, size_out: int, **options: int) -> Network:
    return nn.Conv2d(size_in, size_out, bias=False, **options)


def _norm(size: int) -> Network:
    return nn.BatchNorm2d(size, eps=_EPSILON)


def _padded(values: Tensor, *, kernel: int, stride: int) -> Tensor:
    """Zeros around (N, C, H, W), so that ceil(H / stride) rows and as many columns come out."""
    edges = []
    for length in (values.shape[3], values.shape[2]):
        total = max((-(-length // stride) - 1) * stride + kernel - length, 0)
        edges += [total // 2, total - total // 2]
    return nn.functional.pad(values, edges)


class Block(Module):  # type: ignore[misc]  # the checker does not see torch
    """Expand, filter each channel, project; the input is added where the shapes agree.

    The names of the parts are those of the published weights.
    """

    def __init__(self, size_in: int, size_out: int, *, kernel: int, stride: int, expand: int):
        super().__init__()
        wide = size_in * expand
        self.kernel, self.stride = kernel, stride
        self.has_skip = stride == 1 and size_in == size_out
        self.has_expansion = expand > 1
        if self.has_expansion:
            self._expand_conv = _convolution(size_in, wide, kernel_size=1)
            self._bn0 = _norm(wide)
        self._depthwise_conv = _convolution(
            wide, wide, kernel_size=kernel, stride=stride, groups=wide
        )
        self._bn1 = _norm(wide)
        self._project_conv = _convolution(wide, size_out, kernel_size=1)
        self._bn2 = _norm(size_out)

    def forward(self, values: Tensor) -> Tensor:
        """Pass (N, C, H, W) through the block."""
        inner = values
        if self.has_expansion:
            inner = nn.functional.relu6(self._bn0(self._expand_conv(inner)))
        inner = _padded(inner, kernel=self.kernel, stride=self.stride)
        inner = nn.functional.relu6(self._bn1(self._depthwise_conv(inner)))
        inner = self._bn2(self._project_conv(inner))
        return values + inner if self.has_skip else inner


class EfficientNetLite0(Module):  # type: ignore[misc]
    """The whole network; ``features`` is what comes before its last layer, which names classes."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = _convolution(3, 32, kernel_size=3, stride=2)
        self._bn0 = _norm(32)
        blocks, size = [], 32
        for count, kernel, stride, expand, size_out in _STAGES:
            for number in range(count):
                step = stride if number == 0 else 1
                blocks.append(Block(size, size_out, kernel=kernel, stride=step, expand=expand))
                size = size_out
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = _convolution(size, NUM_FEATURES, kernel_size=1)
        self._bn1 = _norm(NUM_FEATURES)
        self._fc = nn.Linear(NUM_FEATURES, NUM_CLASSES)

    def features(self, values: Tensor) -> Tensor:
        """Mean-pooled features (N, 1280) of pictures (N, 3, H, W) with values in [-1, 1]."""
        values = self._conv_stem(_padded(values, kernel=3, stride=2))
        values = nn.functional.relu6(self._bn0(values))
        for block in self._blocks:
            values = block(values)
        values = nn.functional.relu6(self._bn1(self._conv_head(values)))
        return values.mean(dim=(2, 3))


def load(path: Path) -> Network:
    """The network with the published weights, ready to be asked and not to be trained.

    Args:
        path: the asset ``efficientnet_lite0``.

    Raises:
        BadInput: if the file is not a list of weights, or not this network's.
    """
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
        net = EfficientNetLite0()
        net.load_state_dict(weights, strict=True)
    except (pickle.UnpicklingError, RuntimeError, TypeError, EOFError, KeyError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BadInput(
            f"Expected the weights of EfficientNet-Lite0, got {path.name}: {first} "
            "Fetch the asset efficientnet_lite0."
        ) from error
    return net.eval().requires_grad_(False)


def embed(images: np.ndarray, *, net: Network, batch: int = 64) -> np.ndarray:
    """Features (N, 1280) float32 of pictures (N, H, W, 3) uint8, on the network's device."""
    _check.count(batch=batch)
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8 or not images.size:
        raise ValueError(
            "Expected images to be (N, H, W, 3) uint8 with N >= 1, "
            f"got {images.shape} {images.dtype}."
        )
    device = next(net.parameters()).device
    answers = []
    with torch.inference_mode():
        for start in range(0, len(images), batch):
            part = torch.from_numpy(np.ascontiguousarray(images[start : start + batch]))
            part = part.to(device).permute(0, 3, 1, 2).float() / 255  # (N, 3, H, W)
            part = nn.functional.interpolate(
                part, size=(SIZE_PX, SIZE_PX), mode="bilinear", align_corners=False, antialias=True
            )
            answers.append(net.features((part - 0.5) / 0.5).float().cpu().numpy())
    return np.concatenate(answers)
