"""The two networks of PPEDCRF: where a picture tells its place, and textures that hide it.

A small network that turns random numbers into textures which make places hard to tell apart.

White noise is spread over directions that no network looks at. These textures were taught against
public networks and public places. They depend on nothing but the random numbers, and those are
many: who knows the network cannot guess them, nor take the texture out by solving for them.

A small network that says where a picture tells its place: the unary part of PPEDCRF.

It sees a frame that was made smaller, and gives a logit for each pixel of it. It was taught where
public networks look when they tell public places apart; whom it has not met looks elsewhere to
some degree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.io import atomic
from masquerade.networks import weight_files
from masquerade.networks.small_networks import make_conv_block

SENSITIVITY_NAME = "place_sensitivity"
TEXTURE_NAME = "place_texture"
SENSITIVITY_WEIGHTS = Path(__file__).parent / "weights" / f"{SENSITIVITY_NAME}.safetensors"
TEXTURE_WEIGHTS = Path(__file__).parent / "weights" / f"{TEXTURE_NAME}.safetensors"
_WIDTHS = (16, 32)  # after each halving
_STEP_PX = 2 ** len(_WIDTHS)
_GAIN = 2.0  # logits of a standard deviation
_MIN_MAP_SPREAD = 1e-3  # a map with less spread is the same everywhere
_functional = nn.functional


class PlaceSensitivity(nn.Module):
    """Two halvings, then what lies around at two distances, then one number a cell of 4 x 4."""

    def __init__(self) -> None:
        super().__init__()
        self.name = SENSITIVITY_NAME
        first, second = _WIDTHS
        self.down = nn.Sequential(
            *make_conv_block(2, 3, first, 2), *make_conv_block(2, first, second, 2)
        )
        self.around = nn.Sequential(
            nn.Conv2d(second, second, 3, padding=2, dilation=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(second, second, 3, padding=4, dilation=4),
            nn.ReLU(inplace=True),
        )
        self.out = nn.Conv2d(2 * second, 1, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        """Numbers (N, 1, H, W) for pictures (N, 3, H, W) from -1 to 1, of no fixed scale."""
        height, width = pictures.shape[2:]
        below, right = -height % _STEP_PX, -width % _STEP_PX
        seen = self.down(_functional.pad(pictures, (0, right, 0, below), mode="replicate"))
        cells = self.out(torch.cat([seen, self.around(seen)], dim=1))
        large = _functional.interpolate(
            cells, scale_factor=float(_STEP_PX), mode="bilinear", align_corners=False
        )
        return large[..., :height, :width]


@lru_cache(maxsize=1)
def load_sensitivity_net() -> PlaceSensitivity:
    """The network with the weights that come with this package, on the processor.

    Raises:
        BadInput: if there are none.
    """
    if not SENSITIVITY_WEIGHTS.is_file():
        raise BadInput(
            "Expected the weights of place_sensitivity in this package, got none; make them with "
            f"python tools/place_training.py --task sensitivity --out {SENSITIVITY_WEIGHTS}."
        )
    net = PlaceSensitivity()
    weight_files.load_weights(net, SENSITIVITY_WEIGHTS, keep_head=True)
    return net.eval().requires_grad_(False)


def save_sensitivity(net: PlaceSensitivity, path: Path, *, command: str) -> None:
    """Write the weights in half precision, all or nothing, with what made them."""
    halves = {
        key: value.detach().half().cpu().contiguous() for key, value in net.state_dict().items()
    }
    words = {"name": net.name, "command": command}
    atomic.write_whole(path, weight_files.files.save(halves, metadata=words))


def predict_place_logits(small: np.ndarray, net: PlaceSensitivity | None = None) -> np.ndarray:
    """(H, W) float32: high where the place is told; 0 everywhere where nothing stands out.

    Args:
        small: (H, W, 3) uint8, a frame made smaller.
        net: by default the one that comes with this package.
    """
    asked = load_sensitivity_net() if net is None else net
    picture = torch.from_numpy(np.ascontiguousarray(small)).permute(2, 0, 1)[None]
    with torch.inference_mode():
        found: np.ndarray = asked(picture.float() / 127.5 - 1)[0, 0].numpy()
    spread = float(found.std())
    if spread < _MIN_MAP_SPREAD:
        return np.zeros(found.shape, np.float32)
    return np.asarray(_GAIN * (found - found.mean()) / spread, np.float32)


CANVAS_LINES = 192  # of a canvas, its shorter side
STEP_PX = 8  # both sides are multiples of it
CODES_PER_CELL = 8  # random numbers for each cell of 2, 4 and 8 pixels
SCALES = (2, 4, 8)
_WIDTH = 24
_MAX_CANVAS_SIDE_PX = 768  # pixels of a canvas's longer side
_MIN_TEXTURE_STD = 1e-6
_NUM_PUBLIC_DRAWS = (
    32  # by which what textures have in common is known; a 32nd of their power is left
)


class PlaceTexture(nn.Module):
    """Random numbers at three scales to three colours.

    Args:
        width: channels at the finest scale.
    """

    def __init__(self, width: int = _WIDTH) -> None:
        super().__init__()
        self.name = TEXTURE_NAME
        fine, middle, coarse = width, 2 * width, 3 * width
        self.fine = _make_down_block(CODES_PER_CELL, fine)
        self.middle = _make_down_block(fine, middle, 2)
        self.coarse = _make_down_block(middle + CODES_PER_CELL, coarse, 2)
        self.deep = nn.Sequential(
            _make_down_block(coarse + CODES_PER_CELL, coarse), _make_down_block(coarse, coarse)
        )
        self.up = _make_down_block(coarse + middle, middle)
        self.upper = _make_down_block(middle + fine, fine)
        self.out = nn.Conv2d(fine, 12, 3, padding=1)  # three colours of 2 x 2 pixels

    def forward(self, codes: Sequence[Tensor]) -> Tensor:
        """Textures (N, 3, H, W) from numbers (N, CODES, H / s, W / s) for each of `SCALES`.

        Each has mean 0 and variance 1, over pixels and colours.
        """
        fine = self.fine(codes[0])
        middle = self.middle(fine)
        coarse = self.coarse(torch.cat([middle, codes[1]], dim=1))
        coarse = self.deep(torch.cat([coarse, codes[2]], dim=1))
        up = self.up(torch.cat([_double_size(coarse), middle], dim=1))
        up = self.upper(torch.cat([_double_size(up), fine], dim=1))
        return standardise_fields(_functional.pixel_shuffle(self.out(up), 2))


def _make_down_block(size_in: int, size_out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(size_in, size_out, 3, stride, 1), nn.GroupNorm(4, size_out), nn.ReLU()
    )


def _double_size(values: Tensor) -> Tensor:
    return _functional.interpolate(values, scale_factor=2.0, mode="nearest")


def standardise_fields(fields: Tensor) -> Tensor:
    """Fields (N, 3, H, W) of mean 0 and variance 1 each."""
    moved = fields - fields.mean(dim=(1, 2, 3), keepdim=True)
    return moved / (moved.square().mean(dim=(1, 2, 3), keepdim=True).sqrt() + _MIN_TEXTURE_STD)


def list_code_shapes(height: int, width: int) -> list[tuple[int, int, int]]:
    """Of the random numbers for a canvas whose sides are multiples of 8.

    Example:
        >>> list_code_shapes(192, 320)
        [(8, 96, 160), (8, 48, 80), (8, 24, 40)]
    """
    return [(CODES_PER_CELL, height // scale, width // scale) for scale in SCALES]


def choose_canvas_size(height: int, width: int) -> tuple[int, int]:
    """Of the canvas for frames of that size.

    Example:
        >>> choose_canvas_size(720, 1280), choose_canvas_size(96, 96), choose_canvas_size(1, 10_000)
        ((192, 344), (192, 192), (192, 768))
    """
    scale = CANVAS_LINES / min(height, width)
    sides = (min(_MAX_CANVAS_SIDE_PX, round(side * scale)) for side in (height, width))
    down, right = (-(-side // STEP_PX) * STEP_PX for side in sides)
    return down, right


@lru_cache(maxsize=4)
def load_texture_net(path: Path = TEXTURE_WEIGHTS) -> PlaceTexture:
    """The network with the weights of a file, by default those that come with this package.

    Raises:
        BadInput: if there are none, or they are of another network.
    """
    if not path.is_file():
        raise BadInput(
            f"Expected the weights of {TEXTURE_NAME} at {path}; there is no such file. Make them "
            "with "
            f"python tools/place_training.py --task texture --out {path}."
        )
    net = PlaceTexture()
    weight_files.load_weights(net, path, keep_head=True)
    return net.eval().requires_grad_(False)


def save_texture(net: PlaceTexture, path: Path, *, command: str) -> None:
    """Write the weights in half precision, all or nothing, with what made them."""
    halves = {
        key: value.detach().half().cpu().contiguous() for key, value in net.state_dict().items()
    }
    words = {"name": net.name, "command": command}
    atomic.write_whole(path, weight_files.files.save(halves, metadata=words))


def render_texture(net: PlaceTexture, codes: Sequence[np.ndarray]) -> np.ndarray:
    """One texture (H, W, 3) float32 of mean 0 and variance 1, of numbers as `list_code_shapes`
    says.

    What the network draws whatever the numbers are is taken away: everybody knows it.
    """
    height, width = (side * SCALES[0] for side in codes[0].shape[1:])
    with torch.inference_mode():
        made = net(_convert_codes(codes)) - _compute_common_texture(net, height, width)
        found: np.ndarray = standardise_fields(made)[0].permute(1, 2, 0).contiguous().numpy()
    return found


def _convert_codes(codes: Sequence[np.ndarray]) -> list[Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(each, np.float32))[None] for each in codes]


@lru_cache(maxsize=8)
def _compute_common_texture(net: PlaceTexture, height: int, width: int) -> Tensor:
    """(1, 3, H, W): what textures of one size have in common, as public draws show it."""
    rng = np.random.default_rng(0)
    total = torch.zeros(1, 3, height, width)
    with torch.inference_mode():
        for _ in range(_NUM_PUBLIC_DRAWS):
            total += net(
                _convert_codes([rng.normal(size=each) for each in list_code_shapes(height, width)])
            )
    return total / _NUM_PUBLIC_DRAWS
