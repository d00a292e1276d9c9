"""Recordings of worn sensors as commands want them: read, checked, cut into windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from masquerade.collection import Collection
from masquerade.doors.faults import private_item
from masquerade.errors import BadInput
from masquerade.recordings import Signal
from masquerade.train.ensemble.partition import MOSTLY, Stretch, windows_of


def read(
    collection: Collection[Any] | Sequence[Signal],
    *,
    is_private: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    see: Callable[[Signal], None] = lambda signal: None,
) -> list[Signal]:
    """Every recording of a data set of signals; what is wrong in a private one is not said."""
    found = []
    for index in range(len(collection)):
        signal = signal_of(private_item(collection, index) if is_private else collection[index])
        see(signal)
        found.append(signal)
        progress(index + 1, len(collection))
    if not found:
        raise BadInput("Expected at least one recording, got none.")
    return found


def signal_of(recording: Any) -> Signal:
    """A recording that must be a signal."""
    if not isinstance(recording, Signal):
        raise BadInput(f"Expected signals to learn from, got {type(recording).__name__}s.")
    return recording


def public_windows(signals: Sequence[Signal], window: int) -> np.ndarray:
    """(N, window, C): windows with half an overlap, in which something is done.

    Where a public signal is marked, three quarters of a window are of some activity; of which one
    is not looked at. Where none is, all windows are taken.
    """
    found = [
        signal.values[start : start + window]
        for signal in signals
        for start in range(0, len(signal.values) - window + 1, max(1, window // 2))
        if signal.activity is None
        or (signal.activity[start : start + window] >= 0).mean() >= MOSTLY
    ]
    if not found:
        raise BadInput(
            f"Expected public signals with {window} samples of activity in a row, got none; use a "
            "shorter window."
        )
    return np.stack(found)


def labelled_windows(
    signals: Sequence[Signal], window: int, *, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Windows of signals with the class that fills them, for testing."""
    whole = [Stretch(number, 0, len(signal.values)) for number, signal in enumerate(signals)]
    return windows_of(signals, whole, window=window, step=max(1, window // 2), classes=classes)


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
