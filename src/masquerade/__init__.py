"""Publish recordings of people, or models trained on them, with a guarantee that holds.

Everything a script needs has one name here. The list stands in ``__init__.pyi``, one line a name
with its home, which editors and type checkers read as well. Importing this package loads nothing
else: a name is fetched from its home when it is first used.

A package of ours never lends its name to a function: `masquerade.audits` is a package, so what the
command line calls ``audit`` and ``report`` is `audit_game` and `write_report` here.

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

import re
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.3.0.dev0"

_LINE = re.compile(r"^from ([\w.]+) import (\w+) as \2$", re.MULTILINE)
_LIST = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {name: home for home, name in _LINE.findall(_LIST)}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    """Fetch a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'masquerade' has no attribute {name!r}")
    if _HOMES[name] == ".":
        return import_module(f"masquerade.{name}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
