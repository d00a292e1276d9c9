"""Networks that have learned what people look like; kept, since learning takes most of the time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from masquerade._torch import nn, torch
from masquerade.compute import device
from masquerade.nets import without_privacy
from masquerade.nets.conv import classifier
from masquerade.nets.without_privacy import Course
from masquerade.sight import embedding_cache

LooksNetwork: TypeAlias = Literal["conv", "efficientnet_lite0"]

_BATCH = 64
_VERSION = 1  # another one where the same lessons would teach something else


@dataclass(frozen=True, kw_only=True)
class LooksSchool:
    """How a network learns to answer yes-or-no questions about people.

    What it learned is kept in the private cache, by all that it was shown: the next attack with the
    same lessons takes no time to learn.

    Args:
        network: conv looks at squares, efficientnet_lite0 at what that network made of them.
        steps: of learning, in batches of 64 pictures.
        seed: of the weights at the start, and of the order of pictures.
    """

    network: LooksNetwork
    steps: int
    seed: int

    def taught(
        self, inputs: np.ndarray, answers: np.ndarray, *, told: Callable[[int, int], None]
    ) -> nn.Module:
        """A network that has learned, on the processor.

        Args:
            inputs: (N, ...) what the network takes.
            answers: (N, L) bool.
            told: called with the steps done and their total.
        """
        kept = embedding_cache.made_once(
            (inputs, answers),
            fingerprint=f"looks {_VERSION} {self}",
            make=lambda: _weights(self._learned(inputs, answers, told)),
        )
        return _filled(self._network(inputs, answers), kept)

    def _learned(
        self, inputs: np.ndarray, answers: np.ndarray, told: Callable[[int, int], None]
    ) -> nn.Module:
        """On the chosen device; it comes back from there."""
        course = Course(
            epochs=math.ceil(self.steps / math.ceil(len(inputs) / _BATCH)),
            batch=_BATCH,
            rate=3e-3,
            flips=self.network == "conv",
            shifts=4 if self.network == "conv" else 0,
            seed=self.seed,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            net = self._network(inputs, answers).to(device.chosen())
            without_privacy.fit(
                net,
                inputs,
                answers.astype(np.float32),
                course=course,
                progress=told,
                loss=without_privacy.binary,
            )
        return net.cpu()

    def _network(self, inputs: np.ndarray, answers: np.ndarray) -> nn.Module:
        if self.network == "conv":
            return classifier(axes=2, channels=3, classes=answers.shape[1])
        size = inputs.shape[1]
        return nn.Sequential(nn.LayerNorm(size), nn.Dropout(0.2), nn.Linear(size, answers.shape[1]))


def _weights(net: nn.Module) -> np.ndarray:
    """All weights, one after the other."""
    return np.concatenate([each.detach().numpy().ravel() for each in net.parameters()])


def _filled(net: nn.Module, weights: np.ndarray) -> nn.Module:
    """The network with those weights, ready to be asked."""
    start = 0
    with torch.no_grad():
        for each in net.parameters():
            some = weights[start : start + each.numel()].reshape(tuple(each.shape))
            each.copy_(torch.from_numpy(some))
            start += each.numel()
    return net.eval()
