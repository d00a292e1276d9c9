"""Import an optional dependency, or say which extra brings it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from masquerade.errors import MissingExtra


def require(module: str, *, extra: str) -> ModuleType:
    """Import ``module`` or raise with the line that installs it.

    Example:
        >>> require("json", extra="train").loads("1")
        1
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{module} is needed here and cannot be imported ({error}); "
            f"install it with: pip install 'masquerade[{extra}]'"
        ) from error
