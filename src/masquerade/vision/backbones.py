"""Networks that turn pictures into features: what each wants, and how its weights are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from masquerade import _check
from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.io import devices
from masquerade.networks import weight_files

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and spread of red, green, blue
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))  # black is -1 and white is 1

State = Mapping[str, Tensor]
Triple = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class FeatureBackbone:
    """One network and the pictures that it takes.

    Args:
        name: what we call it.
        make: builds it without weights; it takes pictures (N, 3, H, W) and gives features (N, D).
        read: picks its tensors, under its names, out of a file of weights.
        published: whose weights they are, in words, for who must bring the file.
        asset: that holds them; empty where the user brings the file.
        size_px: height and width of the pictures.
        colours: mean and spread by which values of 0 to 1 are standardised.
    """

    name: str
    make: Callable[[], nn.Module]
    read: Callable[[Path], State]
    published: str
    asset: str = ""
    size_px: int = 224
    colours: tuple[Triple, Triple] = IMAGENET

    def load_net(self, path: Path) -> nn.Module:
        """The network with the weights of a file, ready to be asked and not to be trained.

        Raises:
            BadInput: if there is no such file, or it holds anything but this network's weights.
        """
        if not path.is_file():
            raise BadInput(f"Expected the weights of {self.name} at {path}; there is no such file.")
        net = self.make()
        try:
            weight_files.fill_weights(net, self.read(path), name=self.name, path=path)
        except BadInput as error:
            raise BadInput(f"{error} {self.weights_remedy}") from error
        return net.eval().requires_grad_(False)

    @property
    def weights_remedy(self) -> str:
        """Which weights it takes."""
        wanted = f"Give the state dict of {self.published}"
        return f"{wanted}, or fetch the asset {self.asset}." if self.asset else f"{wanted}."

    def compute_features(self, frames: np.ndarray, *, net: nn.Module, batch: int) -> np.ndarray:
        """(N, D) float32 of frames (N, H, W, 3) uint8, on the network's device.

        Frames are stretched to the network's size, so that nothing of them is left out.
        """
        _check.count(batch=batch)
        check_frames(frames)
        where = next(net.parameters()).device
        answers = []
        with torch.inference_mode():
            for start in range(0, len(frames), batch):
                part = torch.from_numpy(np.ascontiguousarray(frames[start : start + batch]))
                part = part.to(where).permute(0, 3, 1, 2).float()
                answers.append(self.embed_pictures(part, net=net).float().cpu().numpy())
        return np.concatenate(answers)

    def embed_pictures(self, pictures: Tensor, *, net: nn.Module) -> Tensor:
        """Features (N, D) of pictures (N, 3, H, W) of 0 to 255; gradients pass through.

        Pictures of the network's own size are taken as they are.
        """
        mean, spread = (
            torch.tensor(each, device=pictures.device).view(3, 1, 1) for each in self.colours
        )
        shown = pictures / 255
        if tuple(pictures.shape[2:]) != (self.size_px, self.size_px):
            shown = stretch_pictures(shown, self.size_px)
        found: Tensor = net((shown - mean) / spread)
        return found


def check_frames(frames: np.ndarray) -> None:
    """Refuse what is not a list of pictures."""
    if frames.ndim != 4 or frames.shape[3] != 3 or frames.dtype != np.uint8 or not frames.size:
        raise ValueError(
            "Expected frames to be (N, H, W, 3) uint8 with N >= 1, "
            f"got {frames.shape} {frames.dtype}."
        )


def stretch_pictures(pictures: Tensor, size_px: int) -> Tensor:
    """(N, 3, H, W) as squares of that size."""
    return nn.functional.interpolate(
        pictures, size=(size_px, size_px), mode="bilinear", align_corners=False, antialias=True
    )


def move_to_chosen_device(net: nn.Module) -> nn.Module:
    """The network where the command computes."""
    return net.to(devices.device_name())


def make_state_reader(*left_out: str) -> Callable[[Path], State]:
    """Reads a file of tensors, less those whose names begin with one of ``left_out``."""

    def read_state(path: Path) -> State:
        found, _ = weight_files.read_tensors(path)
        return {name: value for name, value in found.items() if not name.startswith(left_out)}

    return read_state
