"""A small network that says where a picture tells its place: the unary part of PPEDCRF.

It sees a frame that was made smaller, and gives a logit for each pixel of it. It was taught where
public networks look when they tell public places apart; whom it has not met looks elsewhere to
some degree.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.files import atomic
from masquerade.nets import weight_files
from masquerade.nets.conv import block

NAME = "place_sensitivity"
OWN = Path(__file__).parent / "weights" / f"{NAME}.safetensors"
_WIDTHS = (16, 32)  # after each halving
_STEP_PX = 2 ** len(_WIDTHS)
_GAIN = 2.0  # logits of a standard deviation
_EVEN = 1e-3  # a map with less spread is the same everywhere
_functional = nn.functional


class PlaceSensitivity(nn.Module):
    """Two halvings, then what lies around at two distances, then one number a cell of 4 x 4."""

    def __init__(self) -> None:
        super().__init__()
        self.name = NAME
        first, second = _WIDTHS
        self.down = nn.Sequential(*block(2, 3, first, 2), *block(2, first, second, 2))
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
def pretrained() -> PlaceSensitivity:
    """The network with the weights that come with this package, on the processor.

    Raises:
        BadInput: if there are none.
    """
    if not OWN.is_file():
        raise BadInput(
            "Expected the weights of place_sensitivity in this package, got none; make them with "
            f"masquerade recipe place_training --task sensitivity --out {OWN}."
        )
    net = PlaceSensitivity()
    weight_files.load_weights(net, OWN, keep_head=True)
    return net.eval().requires_grad_(False)


def save(net: PlaceSensitivity, path: Path, *, command: str) -> None:
    """Write the weights in half precision, all or nothing, with what made them."""
    halves = {
        key: value.detach().half().cpu().contiguous() for key, value in net.state_dict().items()
    }
    words = {"name": net.name, "command": command}
    atomic.write_whole(path, weight_files.files.save(halves, metadata=words))


def logits(small: np.ndarray, net: PlaceSensitivity | None = None) -> np.ndarray:
    """(H, W) float32: high where the place is told; 0 everywhere where nothing stands out.

    Args:
        small: (H, W, 3) uint8, a frame made smaller.
        net: by default the one that comes with this package.
    """
    asked = pretrained() if net is None else net
    picture = torch.from_numpy(np.ascontiguousarray(small)).permute(2, 0, 1)[None]
    with torch.inference_mode():
        found: np.ndarray = asked(picture.float() / 127.5 - 1)[0, 0].numpy()
    spread = float(found.std())
    if spread < _EVEN:
        return np.zeros(found.shape, np.float32)
    return np.asarray(_GAIN * (found - found.mean()) / spread, np.float32)
