"""Import an optional dependency, now or at its first use, or say which extra brings it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

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


class Later:
    """``module``, imported when something of it is asked for.

    Example:
        >>> json = Later("json", extra="train")
        >>> json.loads("1")
        1
    """

    def __init__(self, module: str, *, extra: str) -> None:
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        return getattr(require(self._module, extra=self._extra), name)
