"""Publish recordings of people, or models trained on them, with a guarantee that holds.

Importing this package is cheap: the public names are fetched from their modules when they are
first used, so neither SciPy nor dp-accounting (nor torch, nor OpenCV) is loaded before that.

Example:
    >>> import numpy as np
    >>> import masquerade as mq
    >>> steps = np.array([12.0, 40.0, 35.0, 8.0])
    >>> mechanism = mq.make_mechanism(
    ...     "gaussian_noise", epsilon=8, delta=1e-5, unit="value", low=0, high=100
    ... )
    >>> released = mq.release_value(steps, mechanism)
    >>> released.receipt.guarantee.epsilon
    8.0
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "Accountant": "guarantee",
    "Collection": "collection",
    "Evidence": "scores",
    "Guarantee": "guarantee",
    "Kind": "guarantee",
    "Mechanism": "mechanism",
    "Noise": "noise",
    "Photo": "recordings",
    "Receipt": "receipt",
    "Relation": "guarantee",
    "Release": "receipt",
    "Scores": "scores",
    "Signal": "recordings",
    "Unit": "guarantee",
    "UnitName": "guarantee",
    "Utility": "scores",
    "Video": "recordings",
    "account": "account",
    "check_receipt": "doors.receipt",
    "explain": "wording",
    "IfStanding": "doors.publish",
    "Limits": "doors.source",
    "Options": "doors.recording",
    "Saving": "doors.source",
    "Work": "doors.folder_plan",
    "make_collection": "doors.data",
    "make_mechanism": "doors.recording",
    "measure_files": "doors.utility",
    "probe_file": "doors.data",
    "read_video": "doors.data",
    "release_file": "doors.recording",
    "release_folder": "doors.folder",
    "release_value": "doors.recording",
    "sign_receipt": "doors.receipt",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    """Fetch a public name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'masquerade' has no attribute {name!r}")
    module = import_module(f"masquerade.{_HOMES[name]}")
    return module if name == "account" else getattr(module, name)


def __dir__() -> list[str]:
    return list(__all__)
