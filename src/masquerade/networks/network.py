"""What a network must offer to be trained here: one entry, one file.

What it learns from follows from its ``KIND``. Its fields are flags of the command line.

Channels of worn sensors on one scale, without torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from masquerade import catalog
from masquerade.collection import Medium
from masquerade.recordings import Signal


class Network(ABC):
    """A network before it is trained: how it begins, is cut in two, is fed and is read again."""

    KIND: ClassVar[Medium]
    OUTPUTS: ClassVar[str] = "activities"  # what a model's file calls them
    IN_WORDS: ClassVar[str]  # after "Expected no --flag with"
    HAS_WEIGHTS: ClassVar[bool] = False  # in this package

    @property
    def name(self) -> str:
        """The network's name: its file's."""
        return catalog.name_of(self)

    @property
    @abstractmethod
    def length(self) -> int:
        """Frames, or samples, of a recording that it sees at once."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Patches that it takes a segment apart into, along each axis; none if it does not."""
        return ()

    @property
    def said(self) -> dict[str, Any]:
        """What a model's file says of it: its name, and the fields that it is read again by."""
        return {"network": self.name}

    @property
    def first_weights(self) -> Path | None:
        """The file of weights that it begins with; None where they are random."""
        given: Path | None = getattr(self, "weights", None)
        return shipped(self.name) if self.has_own_weights else given

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

    def told(self, net: Any) -> dict[str, Any]:
        """What a model's file must say beside `said` so that it can be read again."""
        return {}

    @abstractmethod
    def load(self, path: Path, said: Mapping[str, Any]) -> Any:
        """A trained network from a model's file, and what that says."""


def shipped(name: str) -> Path:
    """Where the weights lie that come with this package."""
    return Path(__file__).parent / "weights" / f"{name}.safetensors"


def network_class(name: str) -> type[Network]:
    """The entry of that name.

    Raises:
        ValueError: if there is none; the message lists those there are.
    """
    found: type[Network] = type(catalog.example("networks", name))
    return found


def network_of(said: Mapping[str, Any]) -> Network:
    """The network of a model, with the fields that its file says."""
    kind = network_class(said["network"])
    own = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: said[name] for name in own if name in said})


def normalisation(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of each channel over arrays whose last axis is channels."""
    flat = np.concatenate([each.reshape(-1, each.shape[-1]) for each in values])
    scale = flat.std(axis=0)
    return flat.mean(axis=0), np.where(scale > 0, scale, 1.0).astype(np.float32)
