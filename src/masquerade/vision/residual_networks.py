"""VGG16 [simonyan2015] and AlexNet [krizhevsky2012] up to their last convolution.

Their numbers are those of torchvision's ``features``. Weights come from torchvision's files, or
from those that LPIPS was published with for JAX: pickles of arrays, which are read without running
anything that they name.

ResNet [he2016] for torch under torchvision's names, and CosPlace [berton2022], which ends so.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.vision.backbones import Backbone, State, plain

_WIDTHS = (64, 128, 256, 512)  # of the four stages
_LEAST = 1e-6  # below which GeM reads a feature as this


def _filtered(size_in: int, size_out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(size_in, size_out, kernel, stride, kernel // 2, bias=False)


class ResidualBlock(nn.Module):
    """Two convolutions of three by three, or one between two of one by one, beside the input."""

    def __init__(self, size_in: int, width: int, *, stride: int, is_deep: bool) -> None:
        super().__init__()
        size_out = 4 * width if is_deep else width
        if is_deep:
            self.conv1, self.conv2 = (
                _filtered(size_in, width, 1),
                _filtered(width, width, 3, stride),
            )
            self.conv3, self.bn3 = _filtered(width, size_out, 1), nn.BatchNorm2d(size_out)
        else:
            self.conv1, self.conv2 = (
                _filtered(size_in, width, 3, stride),
                _filtered(width, width, 3),
            )
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.is_deep = is_deep
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or size_in != size_out:
            self.downsample = nn.Sequential(
                _filtered(size_in, size_out, 1, stride), nn.BatchNorm2d(size_out)
            )

    def forward(self, values: Tensor) -> Tensor:
        """Pass (N, C, H, W) through the block."""
        inner = self.bn2(self.conv2(nn.functional.relu(self.bn1(self.conv1(values)))))
        if self.is_deep:
            inner = self.bn3(self.conv3(nn.functional.relu(inner)))
        return nn.functional.relu(inner + self.downsample(values))


def _stages(blocks: tuple[int, ...], *, is_deep: bool) -> Iterator[nn.Sequential]:
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
        self.conv1, self.bn1 = _filtered(3, _WIDTHS[0], 7, 2), nn.BatchNorm2d(_WIDTHS[0])
        stages = _stages(blocks, is_deep=is_deep)
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
        found: Tensor = values.clamp(min=_LEAST).pow(self.p).mean(dim=(2, 3)).pow(1 / self.p)
        return found


class CosPlace(nn.Module):
    """A ResNet, each site of unit length, a generalised mean and a linear map."""

    def __init__(self, blocks: tuple[int, ...], *, is_deep: bool, size_out: int) -> None:
        super().__init__()
        size = _WIDTHS[-1] * (4 if is_deep else 1)
        self.backbone = nn.Sequential(
            _filtered(3, _WIDTHS[0], 7, 2),
            nn.BatchNorm2d(_WIDTHS[0]),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            *_stages(blocks, is_deep=is_deep),
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
        Backbone(
            name=name,
            make=functools.partial(ResNet, blocks, is_deep=is_deep),
            read=plain("fc."),
            published=f"torchvision's {name}",
        )
        for name, (blocks, is_deep) in (("resnet18", _RESNET18), ("resnet50", _RESNET50))
    ),
    *(
        Backbone(
            name=f"cosplace_{name}",
            make=functools.partial(CosPlace, blocks, is_deep=is_deep, size_out=size_out),
            read=plain(),
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
_POOLED = (0, 1)  # after which of them
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


def _vgg16() -> nn.Module:
    def parts() -> Iterator[nn.Module]:
        size = 3
        for channels in _VGG16:
            if channels == _POOL:
                yield nn.MaxPool2d(2)
                continue
            yield nn.Conv2d(size, channels, 3, padding=1)
            yield nn.ReLU()
            size = channels

    return PlainConvolutions(parts())


def _alexnet() -> nn.Module:
    def parts() -> Iterator[nn.Module]:
        size = 3
        for number, (channels, kernel, stride, padding) in enumerate(_ALEXNET):
            yield nn.Conv2d(size, channels, kernel, stride, padding)
            yield nn.ReLU()
            if number in _POOLED:
                yield nn.MaxPool2d(3, 2)
            size = channels

    return PlainConvolutions(parts())


def _read(path: Path, *, make: Any, name: str) -> State:
    """The tensors of a torchvision file, or of a pickle for JAX."""
    data = path.read_bytes()
    if not data.startswith(_PICKLE) or _TORCH_PICKLE in data[:32]:
        return plain("classifier.")(path)
    layers = [key.removesuffix(".weight") for key in make().state_dict() if key.endswith("weight")]
    try:
        held = _Arrays(io.BytesIO(data)).load()[name]
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


class _Arrays(pickle.Unpickler):
    """Reads arrays of float32 in lists and dictionaries; everything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): _single,
            ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
            ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is no array")
        return allowed[module, name]


def _single(name: str, *_: object) -> np.dtype[np.float32]:
    if name != "f4":
        raise pickle.UnpicklingError(f"{name} is not float32")
    return np.dtype(np.float32, copy=True)  # its byte order is set by what follows


PLAIN_BACKBONES = (
    Backbone(
        name="vgg16",
        make=_vgg16,
        read=functools.partial(_read, make=_vgg16, name="VGG16_0"),
        published="torchvision's vgg16",
        asset="vgg16",
    ),
    Backbone(
        name="alexnet",
        make=_alexnet,
        read=functools.partial(_read, make=_alexnet, name="AlexNet_0"),
        published="torchvision's alexnet",
        asset="alexnet",
    ),
)
