"""What a network must offer to be trained here: one entry, one file.

What it learns from follows from its ``KIND``. Its fields are flags of the command line.

Channels of worn sensors on one scale, without torch.

What the multiscale vision transformers have in common as entries.

What networks for people's joints in photos have in common as entries.

Version 2 in six blocks for 64 x 64 pixels: learns on two cores.

MViT-B [fan2021], for 224 x 224 pixels.

MViTv2-S [li2022], for 224 x 224 pixels.

TinyViT of 11 million weights, as published, with a head for joints.

TinyViT of 21 million weights, as published, with a head for joints.

TinyViT of 5 million weights, as published, with a head for joints.

TinyViT in five blocks, with a head for joints: learns on two cores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from masquerade import _check, catalog
from masquerade._optional import lazy_module, torch
from masquerade.collection import Medium
from masquerade.recordings import Signal

if TYPE_CHECKING:
    from masquerade.networks import mvit_layers as mvit
else:
    mvit = lazy_module(
        "masquerade.networks.mvit_layers", extra="train"
    )  # a setting is no network yet

if TYPE_CHECKING:
    from masquerade.networks import picture_crops as pose_crops
    from masquerade.networks import tiny_vit_pose, weight_files
else:
    pose_crops = lazy_module("masquerade.networks.picture_crops", extra="train")
    tiny_vit_pose = lazy_module("masquerade.networks.tiny_vit_pose", extra="train")
    weight_files = lazy_module("masquerade.networks.weight_files", extra="train")


class Network(ABC):
    """A network before it is trained: how it begins, is cut in two, is fed and is read again."""

    KIND: ClassVar[Medium]
    OUTPUTS: ClassVar[str] = "activities"  # what a model's file calls them
    IN_WORDS: ClassVar[str]  # after "Expected no --flag with"
    HAS_WEIGHTS: ClassVar[bool] = False  # in this package

    @property
    def name(self) -> str:
        """The network's name: its file's."""
        return catalog.find_entry_name(self)

    @property
    @abstractmethod
    def length(self) -> int:
        """Frames, or samples, of a recording that it sees at once."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Patches that it takes a segment apart into, along each axis; none if it does not."""
        return ()

    @property
    def file_fields(self) -> dict[str, Any]:
        """What a model's file says of it: its name, and the fields that it is read again by."""
        return {"network": self.name}

    @property
    def first_weights(self) -> Path | None:
        """The file of weights that it begins with; None where they are random."""
        given: Path | None = getattr(self, "weights", None)
        return find_packaged_weights(self.name) if self.has_own_weights else given

    @property
    def has_own_weights(self) -> bool:
        """Whether it begins with those that come with this package."""
        is_other = getattr(self, "weights", None) is not None or getattr(self, "from_scratch", True)
        return self.HAS_WEIGHTS and not is_other

    @abstractmethod
    def check(self, part: str, precision: str) -> None:
        """Refuse what it cannot be trained by."""

    @abstractmethod
    def make(self, classes: int, *, seed: int, public: Sequence[Signal] = ()) -> Any:
        """The network before it is trained.

        Args:
            classes: numbers that come out.
            seed: of what is random in it; public.
            public: recordings that it may be made by, without noise.
        """

    @abstractmethod
    def split(self, net: Any, part: str) -> tuple[Any, Any]:
        """What is frozen and comes first, and what is trained."""

    @abstractmethod
    def prepare(self, segments: np.ndarray) -> Any:
        """Stretches of a recording, each of its length, as a tensor that it takes."""

    def describe_net(self, net: Any) -> dict[str, Any]:
        """What a model's file must say beside `file_fields` so that it can be read again."""
        return {}

    @abstractmethod
    def load(self, path: Path, said: Mapping[str, Any]) -> Any:
        """A trained network from a model's file, and what that says."""


def find_packaged_weights(name: str) -> Path:
    """Where the weights lie that come with this package."""
    return Path(__file__).parent / "weights" / f"{name}.safetensors"


def find_network_class(name: str) -> type[Network]:
    """The entry of that name.

    Raises:
        ValueError: if there is none; the message lists those there are.
    """
    found: type[Network] = type(catalog.make_example("networks", name))
    return found


def make_described_network(said: Mapping[str, Any]) -> Network:
    """The network of a model, with the fields that its file says."""
    kind = find_network_class(said["network"])
    own = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: said[name] for name in own if name in said})


def compute_channel_scales(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of each channel over arrays whose last axis is channels."""
    flat = np.concatenate([each.reshape(-1, each.shape[-1]) for each in values])
    scale = flat.std(axis=0)
    return flat.mean(axis=0), np.where(scale > 0, scale, 1.0).astype(np.float32)


PARTS = ("head", "last_norms", "norms", "all")
STRIDE = (2, 4, 4)  # of the first layer: frames and pixels from one token to the next


@dataclass(frozen=True, kw_only=True)
class InputStatistics:
    """What a network wants to see; public, never taken from the data.

    Args:
        frames: of a film.
        size_px: height and width.
        mean: of each channel, from 0 to 1.
        std: of each channel.
        antialias: whether a larger picture is smoothed before it is made smaller.
    """

    frames: int = 16
    size_px: int = 224
    mean: tuple[float, float, float] = (0.45, 0.45, 0.45)
    std: tuple[float, float, float] = (0.225, 0.225, 0.225)
    antialias: bool = False


NORMALISATION = {
    "mvit_v1_b": InputStatistics(),  # as in torchvision's preset for the Kinetics-400 weights
    "mvit_v2_s": InputStatistics(),
    "mvit_small": InputStatistics(size_px=64, antialias=True),
}


@dataclass(frozen=True, kw_only=True)
class FilmNetwork(Network):
    """A network for videos, and the weights that it begins with.

    Args:
        weights: a file of public weights to begin with; ours if None, where there are some.
        from_scratch: begin with random weights instead.
        keep_head: begin with the head of the public weights too, where their classes are the same;
            otherwise with zeros.
    """

    KIND: ClassVar[Medium] = Medium.VIDEOS
    IN_WORDS: ClassVar[str] = "a network for videos"

    weights: Path | None = None
    from_scratch: bool = False
    keep_head: bool = False

    def __post_init__(self) -> None:
        if self.from_scratch and self.weights is not None:
            raise ValueError("Expected weights or from_scratch, got both.")

    @property
    def length(self) -> int:
        """Frames of a film."""
        return NORMALISATION[self.name].frames

    @property
    def tokens(self) -> tuple[int, ...]:
        """Along frames, height and width: one a stride of the first layer."""
        seen = NORMALISATION[self.name]
        sizes = seen.frames, seen.size_px, seen.size_px
        return tuple(size // step for size, step in zip(sizes, STRIDE, strict=True))

    def check(self, part: str, precision: str) -> None:
        """Every part that it has can be trained, in either precision."""
        if part not in PARTS:
            raise ValueError(_check.describe_unknown("part", part, PARTS))

    def make(self, classes: int, *, seed: int, public: Sequence[Signal] = ()) -> Any:
        """Public or random weights; a head of zeros unless it is kept."""
        torch.manual_seed(seed)
        net = self._make_first_net(classes)
        if not self.keep_head:
            for parameter in net.head.parameters():
                torch.nn.init.zeros_(parameter)
        return net

    def _make_first_net(self, classes: int) -> Any:
        if self.has_own_weights:
            return mvit.load_pretrained_mvit(self.name, classes=classes)
        if self.weights is None and not self.from_scratch:
            raise ValueError(
                f"Expected --weights FILE with public weights of {self.name} (Kinetics-400), "
                "or --from-scratch, got neither."
            )
        net = mvit.make_mvit(self.name, classes=classes)
        if self.weights is not None:
            mvit.load_weights(net, self.weights)
        return net

    def split(self, net: Any, part: str) -> tuple[Any, Any]:
        """Cut before the first module that is trained."""
        return mvit.split_mvit(net, part)

    def prepare(self, segments: np.ndarray) -> Any:
        """Films (N, T, H, W, 3) uint8 as (N, 3, T, size, size) float32."""
        return mvit.prepare_films(segments, self.name)

    def load(self, path: Path, said: Mapping[str, Any]) -> Any:
        """With the head that was trained."""
        net = mvit.make_mvit(self.name, classes=len(said["activities"]))
        mvit.load_weights(net, path, keep_head=True)
        return net.eval()


@dataclass(frozen=True, kw_only=True)
class PoseNetwork(Network):
    """A network that finds joints in photos, and the weights that it begins with.

    Args:
        weights: a file of public weights to begin with; ours if None, where there are some.
        from_scratch: begin with random weights instead.
        smoothing: standard deviation of a joint's target, in bins of half a pixel.
    """

    KIND: ClassVar[Medium] = Medium.PHOTOS
    OUTPUTS: ClassVar[str] = "joints"
    IN_WORDS: ClassVar[str] = "a network for joints in photos"

    weights: Path | None = None
    from_scratch: bool = False
    smoothing: float = 3.0

    def __post_init__(self) -> None:
        _check.positive(smoothing=self.smoothing)
        if self.from_scratch and self.weights is not None:
            raise ValueError("Expected weights or from_scratch, got both.")

    @property
    def length(self) -> int:
        """A photo is one frame."""
        return 1

    @property
    def file_fields(self) -> dict[str, Any]:
        """With how sharp its answers are meant to be."""
        return super().file_fields | {"smoothing": self.smoothing}

    def check(self, part: str, precision: str) -> None:
        """Every part can be trained, in either precision."""

    def make(self, classes: int, *, seed: int, public: Sequence[Signal] = ()) -> Any:
        """Public or random weights; the head of public ones is kept, joint by joint."""
        torch.manual_seed(seed)
        if self.has_own_weights:
            return tiny_vit_pose.load_pretrained_finder(
                self.name, classes, smoothing=self.smoothing
            )
        if self.weights is None and not self.from_scratch:
            raise ValueError(
                f"Expected --weights FILE with public weights of {self.name} (joints of COCO, or "
                "ImageNet), or --from-scratch, got neither."
            )
        net = tiny_vit_pose.JointFinder(self.name, classes, smoothing=self.smoothing)
        if self.weights is not None:
            tiny_vit_pose.load_finder_weights(net, self.weights)
        return net

    def split(self, net: Any, part: str) -> tuple[Any, Any]:
        """Cut before the first module that is trained."""
        return tiny_vit_pose.split_joint_finder(net, part)

    def prepare(self, segments: np.ndarray) -> Any:
        """Whole pictures (N, H, W, 3) uint8 as (N, 3, 256, 192) float32."""
        shown = [
            pose_crops.crop_pose(each, pose_crops.find_crop_region(each, None)) for each in segments
        ]
        return pose_crops.make_crop_inputs(np.stack(shown))

    def load(self, path: Path, said: Mapping[str, Any]) -> Any:
        """With the head that was trained."""
        count = len(said[self.OUTPUTS])
        net = tiny_vit_pose.JointFinder(self.name, count, smoothing=self.smoothing)
        found, _ = weight_files.read_tensors(path)
        weight_files.fill_weights(net, found, name=self.name, path=path)
        return net.eval()


@dataclass(frozen=True, kw_only=True)
class MvitSmall(FilmNetwork):
    """Version 2 in six blocks for 64 x 64 pixels: learns on two cores."""

    HAS_WEIGHTS: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class MvitV1B(FilmNetwork):
    """MViT-B [fan2021], for 224 x 224 pixels."""


@dataclass(frozen=True, kw_only=True)
class MvitV2S(FilmNetwork):
    """MViTv2-S [li2022], for 224 x 224 pixels."""


@dataclass(frozen=True, kw_only=True)
class TinyVit11M(PoseNetwork):
    """TinyViT of 11 million weights, as published, with a head for joints."""


@dataclass(frozen=True, kw_only=True)
class TinyVit21M(PoseNetwork):
    """TinyViT of 21 million weights, as published, with a head for joints."""


@dataclass(frozen=True, kw_only=True)
class TinyVit5M(PoseNetwork):
    """TinyViT of 5 million weights, as published, with a head for joints."""


@dataclass(frozen=True, kw_only=True)
class TinyVitSmall(PoseNetwork):
    """TinyViT in five blocks, with a head for joints: learns on two cores."""

    HAS_WEIGHTS: ClassVar[bool] = True
