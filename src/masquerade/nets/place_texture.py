"""A small network that turns random numbers into textures which make places hard to tell apart.

White noise is spread over directions that no network looks at. These textures were taught against
public networks and public places. They depend on nothing but the random numbers, and those are
many: who knows the network cannot guess them, nor take the texture out by solving for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.files import atomic
from masquerade.nets import weight_files

NAME = "place_texture"
OWN = Path(__file__).parent / "weights" / f"{NAME}.safetensors"
LINES = 192  # of a canvas, its shorter side
STEP_PX = 8  # both sides are multiples of it
CODES = 8  # random numbers for each cell of 2, 4 and 8 pixels
SCALES = (2, 4, 8)
_WIDTH = 24
_LONGEST = 768  # pixels of a canvas's longer side
_TINY = 1e-6
_DRAWS = 32  # by which what textures have in common is known; a 32nd of their power is left
_functional = nn.functional


class PlaceTexture(nn.Module):
    """Random numbers at three scales to three colours.

    Args:
        width: channels at the finest scale.
    """

    def __init__(self, width: int = _WIDTH) -> None:
        super().__init__()
        self.name = NAME
        fine, middle, coarse = width, 2 * width, 3 * width
        self.fine = _block(CODES, fine)
        self.middle = _block(fine, middle, 2)
        self.coarse = _block(middle + CODES, coarse, 2)
        self.deep = nn.Sequential(_block(coarse + CODES, coarse), _block(coarse, coarse))
        self.up = _block(coarse + middle, middle)
        self.upper = _block(middle + fine, fine)
        self.out = nn.Conv2d(fine, 12, 3, padding=1)  # three colours of 2 x 2 pixels

    def forward(self, codes: Sequence[Tensor]) -> Tensor:
        """Textures (N, 3, H, W) from numbers (N, CODES, H / s, W / s) for each of `SCALES`.

        Each has mean 0 and variance 1, over pixels and colours.
        """
        fine = self.fine(codes[0])
        middle = self.middle(fine)
        coarse = self.coarse(torch.cat([middle, codes[1]], dim=1))
        coarse = self.deep(torch.cat([coarse, codes[2]], dim=1))
        up = self.up(torch.cat([_twice(coarse), middle], dim=1))
        up = self.upper(torch.cat([_twice(up), fine], dim=1))
        return standard(_functional.pixel_shuffle(self.out(up), 2))


def _block(size_in: int, size_out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(size_in, size_out, 3, stride, 1), nn.GroupNorm(4, size_out), nn.ReLU()
    )


def _twice(values: Tensor) -> Tensor:
    return _functional.interpolate(values, scale_factor=2.0, mode="nearest")


def standard(fields: Tensor) -> Tensor:
    """Fields (N, 3, H, W) of mean 0 and variance 1 each."""
    moved = fields - fields.mean(dim=(1, 2, 3), keepdim=True)
    return moved / (moved.square().mean(dim=(1, 2, 3), keepdim=True).sqrt() + _TINY)


def code_shapes(height: int, width: int) -> list[tuple[int, int, int]]:
    """Of the random numbers for a canvas whose sides are multiples of 8.

    Example:
        >>> code_shapes(192, 320)
        [(8, 96, 160), (8, 48, 80), (8, 24, 40)]
    """
    return [(CODES, height // scale, width // scale) for scale in SCALES]


def canvas_size(height: int, width: int) -> tuple[int, int]:
    """Of the canvas for frames of that size.

    Example:
        >>> canvas_size(720, 1280), canvas_size(96, 96), canvas_size(1, 10_000)
        ((192, 344), (192, 192), (192, 768))
    """
    scale = LINES / min(height, width)
    sides = (min(_LONGEST, round(side * scale)) for side in (height, width))
    down, right = (-(-side // STEP_PX) * STEP_PX for side in sides)
    return down, right


@lru_cache(maxsize=4)
def opened(path: Path = OWN) -> PlaceTexture:
    """The network with the weights of a file, by default those that come with this package.

    Raises:
        BadInput: if there are none, or they are of another network.
    """
    if not path.is_file():
        raise BadInput(
            f"Expected the weights of {NAME} at {path}; there is no such file. Make them with "
            f"masquerade recipe place_training --task texture --out {path}."
        )
    net = PlaceTexture()
    weight_files.load_weights(net, path, keep_head=True)
    return net.eval().requires_grad_(False)


def save(net: PlaceTexture, path: Path, *, command: str) -> None:
    """Write the weights in half precision, all or nothing, with what made them."""
    halves = {
        key: value.detach().half().cpu().contiguous() for key, value in net.state_dict().items()
    }
    words = {"name": net.name, "command": command}
    atomic.write_whole(path, weight_files.files.save(halves, metadata=words))


def canvas(net: PlaceTexture, codes: Sequence[np.ndarray]) -> np.ndarray:
    """One texture (H, W, 3) float32 of mean 0 and variance 1, of numbers as `code_shapes` says.

    What the network draws whatever the numbers are is taken away: everybody knows it.
    """
    height, width = (side * SCALES[0] for side in codes[0].shape[1:])
    with torch.inference_mode():
        made = net(_given(codes)) - _shared(net, height, width)
        found: np.ndarray = standard(made)[0].permute(1, 2, 0).contiguous().numpy()
    return found


def _given(codes: Sequence[np.ndarray]) -> list[Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(each, np.float32))[None] for each in codes]


@lru_cache(maxsize=8)
def _shared(net: PlaceTexture, height: int, width: int) -> Tensor:
    """(1, 3, H, W): what textures of one size have in common, as public draws show it."""
    rng = np.random.default_rng(0)
    total = torch.zeros(1, 3, height, width)
    with torch.inference_mode():
        for _ in range(_DRAWS):
            total += net(_given([rng.normal(size=each) for each in code_shapes(height, width)]))
    return total / _DRAWS
