"""VGG16 [simonyan2015] and AlexNet [krizhevsky2012] up to their last convolution.

Their numbers are those of torchvision's ``features``. Weights come from torchvision's files, or
from those that LPIPS was published with for JAX: pickles of arrays, which are read without running
anything that they name.
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
from masquerade.sight.backbone import Backbone, State, plain

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


BACKBONES = (
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
