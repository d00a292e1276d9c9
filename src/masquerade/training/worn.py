"""Recordings of worn sensors: read, checked, cut into windows, and as rows of people.

A private recording gives a fixed number of rows, whatever is in it. Where it has fewer windows with
a class its rows stay empty, and whoever has none at all adds exactly nothing: no private number or
label can move a row of somebody else, or stop a run that has begun. A recording that cannot be read
at all, or that has a number that is not finite, stops it before anybody is charged (see `faults`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.networks.network import Network
from masquerade.recordings import Signal
from masquerade.training.method import Method
from masquerade.training.partition import MIN_ACTIVITY_SHARE, Stretch, step_of, windows_of
from masquerade.training.student import predict_probabilities
from masquerade.training.units import private_item


class SignalReader:
    """Turns private signals into what a network's trunk is given, one at a time.

    Args:
        method: how many windows of a recording are taken.
        network: that sees them.
        classes: the public list.
        known: public signals that they must fit.
    """

    mask_sha256 = shown = None  # nothing of a private signal is public

    def __init__(
        self, method: Method, network: Network, classes: Sequence[str], known: Sequence[Signal]
    ) -> None:
        self.method, self._network, self._classes = method, network, classes
        self._known = known

    def make_training_rows(self, recording: Any) -> tuple[dict[str, Any], list[int]]:
        """Its windows, and their classes; -1 where it has fewer."""
        signal = signal_of(recording)
        check_alike([signal], self._known)  # looks at what is public, never at its numbers
        values, found = choose_windows(
            signal,
            window=self._network.length,
            most=self.method.segments,
            classes=len(self._classes),
        )
        return {"private": self._network.prepare(values)}, found.tolist()


def public_signals(
    public: Collection[Any] | Sequence[Signal], network: Network
) -> Sequence[Signal]:
    """Recordings of other people, by which channels are normalised without noise."""
    found = read_signals(public)
    check_alike([], found)
    longest = max(len(signal.values) for signal in found)
    if longest < network.length:
        raise BadInput(
            f"Expected a public signal of at least {network.length} samples, a window, got "
            f"{longest} at most; give --lstm-window {longest}, or longer public signals."
        )
    return found


def read_signals(
    collection: Collection[Any] | Sequence[Signal],
    *,
    is_private: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Signal]:
    """Every recording of a data set of signals; what is wrong in a private one is not said."""
    found = []
    for index in range(len(collection)):
        recording = private_item(collection, index) if is_private else collection[index]
        found.append(signal_of(recording))
        progress(index + 1, len(collection))
    if not found:
        raise BadInput("Expected at least one recording, got none.")
    return found


def signal_of(recording: Any) -> Signal:
    """A recording that must be a signal."""
    if not isinstance(recording, Signal):
        raise BadInput(f"Expected signals to learn from, got {type(recording).__name__}s.")
    return recording


def public_windows(signals: Sequence[Signal], window: int, *, overlap: float = 0.5) -> np.ndarray:
    """(N, window, C): windows in which something is done.

    Where a public signal is marked, three quarters of a window are of some activity; of which one
    is not looked at. Where none is, all windows are taken.
    """
    found = [
        signal.values[start : start + window]
        for signal in signals
        for start in range(0, len(signal.values) - window + 1, step_of(window, overlap))
        if signal.activity is None
        or (signal.activity[start : start + window] >= 0).mean() >= MIN_ACTIVITY_SHARE
    ]
    if not found:
        raise BadInput(
            f"Expected public signals with {window} samples of activity in a row, got none; give "
            "shorter --windows."
        )
    return np.stack(found)


def cut_labelled_windows(
    signals: Sequence[Signal], window: int, *, classes: int, overlap: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Windows of signals, and the class that fills each."""
    whole = [Stretch(number, 0, len(signal.values)) for number, signal in enumerate(signals)]
    return windows_of(signals, whole, window=window, step=step_of(window, overlap), classes=classes)


def check_alike(private: Sequence[Signal], public: Sequence[Signal]) -> None:
    """Refuse signals that cannot be learned from together, or somebody who is in both parts."""
    first = public[0]
    if any(signal.activity is None for signal in private):
        raise BadInput("Expected labelled signals to learn from, got one without labels.")
    for signal in (*private, *public):
        if signal.rate_hz != first.rate_hz:
            raise BadInput(
                f"Expected one rate, got {first.rate_hz:g} and {signal.rate_hz:g} Hz; resample "
                "the signals to one rate first."
            )
        if signal.values.shape[1] != first.values.shape[1] or signal.channels != first.channels:
            raise BadInput("Expected the same channels in all signals, got different ones.")
    both = {signal.subject for signal in private} & {signal.subject for signal in public}
    if both - {None}:
        raise BadInput(
            f"Expected public signals of other people, got {len(both - {None})} who are in both; "
            "leave them out of one."
        )


def choose_windows(
    signal: Signal, *, window: int, most: int, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """(most, window, C) windows and (most,) classes, spread evenly over those that have a class.

    The rule looks at this recording alone. Where it has fewer, zeros follow, with the class -1.
    """
    values, found = cut_labelled_windows([signal], window, classes=classes)
    count = min(most, len(found))
    places = (2 * np.arange(count) + 1) * len(found) // max(1, 2 * count)  # the middle of each part
    picked = np.zeros((most, window, signal.values.shape[1]), np.float32)
    picked[:count] = values[places]
    labels = np.full(most, -1)
    labels[:count] = found[places]
    return picked, labels


def predict_segments(
    net: Any,
    network: Network,
    collection: Collection[Any],
    *,
    progress: Callable[[int, int], None],
) -> tuple[np.ndarray, np.ndarray]:
    """What a network says of every window that one activity fills, and what is right."""
    signals = read_signals(collection, progress=progress)
    for signal in signals:
        if signal.rate_hz != net.rate_hz or signal.values.shape[1] != len(net.mean):
            raise BadInput(
                f"Expected the sensors of the model, {len(net.mean)} channels at a rate of "
                f"{net.rate_hz:g} Hz, got {signal.values.shape[1]} at {signal.rate_hz:g} Hz."
            )
        if signal.activity is None:
            raise BadInput("Expected labelled signals to test on, got one without labels.")
    windows, right = cut_labelled_windows(
        signals, network.length, classes=len(collection.activities)
    )
    if not len(right):
        raise BadInput("Expected at least one window with a known activity, got none.")
    return predict_probabilities(net, windows).argmax(axis=1), right
