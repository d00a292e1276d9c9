"""An LSTM on recordings of worn sensors, for `training.train`: windows of people, and their rows.

A recording gives a fixed number of rows, whatever is in it. Where it has fewer windows with a class
its rows stay empty, and whoever has none at all adds exactly nothing: no private number or label
can move a row of somebody else, or stop a run that has begun. A recording that cannot be read at
all, or that has a number that is not finite, stops it before anybody is charged (`doors.faults`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade.collection import Collection
from masquerade.doors.faults import private_item
from masquerade.doors.lessons import Lessons, Memory, Progress, Sink, classes_of
from masquerade.doors.owners import owner_of, units_of
from masquerade.doors.signals import check_alike, read, signal_of
from masquerade.errors import BadInput
from masquerade.nets import lstm
from masquerade.recordings import Signal
from masquerade.train.ensemble.partition import Stretch, windows_of
from masquerade.train.ensemble.teachers import normalisation
from masquerade.train.loop import Precision
from masquerade.train.method import Method
from masquerade.train.rows import Rows, slots_of

torch = require("torch", extra="train")
_PARTS = ("all", "head")


@dataclass(frozen=True, kw_only=True, eq=False)
class Worn:
    """An LSTM that is trained on worn sensors, from random weights.

    A method's ``segments`` is the number of windows of a recording that are averaged before
    clipping, spread evenly over those that one activity fills. Its usual 1 is little to learn from:
    32, with ``part="all"``, is sensible. ``part="head"`` leaves the LSTM as random as it began.

    Args:
        public: recordings of other people: a list, or a data set, which is read when it is needed.
            Channels are normalised by them alone, without noise.
        window: samples that the network sees at once.
        hidden: size of its state.
    """

    public: Sequence[Signal] | Collection[Any]
    window: int = 128
    hidden: int = 64

    def __post_init__(self) -> None:
        _check.count(window=self.window, hidden=self.hidden)

    @cached_property
    def known(self) -> Sequence[Signal]:
        """The public recordings."""
        found = read(self.public)
        check_alike([], found)
        longest = max(len(signal.values) for signal in found)
        if longest < self.window:
            raise BadInput(
                f"Expected a public signal of at least {self.window} samples, a window, got "
                f"{longest} at most; use a shorter window."
            )
        return found

    @property
    def kind(self) -> dict[str, Any]:
        """What its file says of it, whatever it learns from."""
        return {"network": "lstm", "hidden": self.hidden, "window": self.window}

    def check(self, method: Method, precision: Precision) -> None:
        """Refuse what an LSTM cannot be trained by."""
        if method.HAS_PUBLIC or not method.HAS_PRIVATE:
            raise ValueError(
                f"Expected a method without public pixels for worn sensors, got {method.name}; use "
                "dp_sgd or multi_clip."
            )
        if method.part not in _PARTS:
            raise ValueError(
                f"Expected part all or head with an LSTM, which has no norms, got "
                f"part={method.part}; use part=all."
            )
        if precision != "float32":
            raise ValueError(
                f"Expected precision=float32 with an LSTM, got precision={precision}; it has no "
                "other."
            )

    def make(self, classes: int, *, seed: int) -> Any:
        """The network before it is trained; what is random in it comes from a public seed."""
        mean, scale = normalisation([signal.values for signal in self.known])
        torch.manual_seed(seed)
        net = lstm.make(len(mean), classes, hidden=self.hidden, mean=mean, scale=scale)
        net.name, net.window, net.rate_hz = "lstm", self.window, self.known[0].rate_hz
        return net

    @contextlib.contextmanager
    def lessons(
        self,
        collection: Collection[Any],
        method: Method,
        net: Any,
        *,
        memory: Memory,
        progress: Progress,
        see: Callable[[Signal], None] = lambda signal: None,
    ) -> Iterator[tuple[Any, Lessons]]:
        """Read every recording once; give what is trained of the network, and its rows."""
        classes = len(classes_of(collection))
        trunk, tail = _split(net, method.part)
        sink = Sink(len(collection) * method.segments, memory)
        targets: list[np.ndarray] = []
        owners: list[str | int] = []
        try:
            for index in range(len(collection)):
                signal = signal_of(private_item(collection, index))
                see(signal)
                check_alike([signal], self.known)  # looks at what is public, never at its numbers
                values, found = chosen(
                    signal, window=self.window, most=method.segments, classes=classes
                )
                with torch.no_grad():
                    sink.add(trunk(torch.from_numpy(values).to(memory.device)))
                targets.append(found)
                name = collection.labels[index].name
                owners.append(owner_of(signal, index, str(method.unit), name))
                progress(index + 1, len(collection))
            slots = _slots(owners, targets, method)  # refuses a data set without recordings
            given = torch.from_numpy(np.maximum(np.concatenate(targets), 0))
            yield (
                tail,
                Lessons(
                    rows=Rows(
                        private=sink.tensor(),
                        public=None,
                        targets=given.to(memory.device),
                        slots=slots,
                    ),
                    mask_sha256=None,
                    units=units_of(owners),
                ),
            )
        finally:
            sink.close()

    def said(self, net: Any, classes: tuple[str, ...]) -> dict[str, Any]:
        """What a model's file must say so that it can be read again."""
        more = {"activities": classes, "channels": len(net.mean), "rate_hz": net.rate_hz}
        return self.kind | more


def chosen(
    signal: Signal, *, window: int, most: int, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """(most, window, C) windows and (most,) classes, spread evenly over those that have a class.

    The rule looks at this recording alone. Where it has fewer, zeros follow, with the class -1.
    """
    whole = [Stretch(0, 0, len(signal.values))]
    values, found = windows_of(
        [signal], whole, window=window, step=max(1, window // 2), classes=classes
    )
    count = min(most, len(found))
    places = (2 * np.arange(count) + 1) * len(found) // max(1, 2 * count)  # the middle of each part
    picked = np.zeros((most, window, signal.values.shape[1]), np.float32)
    picked[:count] = values[places]
    labels = np.full(most, -1)
    labels[:count] = found[places]
    return picked, labels


def _split(net: Any, part: str) -> tuple[Callable[[Any], Any], Any]:
    """What is frozen and comes first, and what is trained."""
    if part == "all":
        return lambda windows: windows, net
    for parameter in net.lstm.parameters():
        parameter.requires_grad_(False)
    return net.middle, net.head


def _slots(
    owners: Sequence[str | int], targets: Sequence[np.ndarray], method: Method
) -> np.ndarray:
    """(U, k): rows of each unit; -1 where it has no window."""
    most = method.recordings if method.unit == "subject" else 1
    slots = slots_of(owners, segments=method.segments, most=most)
    is_real = np.concatenate(targets) >= 0
    return np.where((slots >= 0) & is_real[np.maximum(slots, 0)], slots, -1)
