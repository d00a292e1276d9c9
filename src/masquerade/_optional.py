"""Import what others wrote: now, at its first use, or without all that comes with it."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from masquerade.errors import MissingExtra

_RUNNING = threading.RLock()
_BEGUN = "__begun__"


def require(module: str, *, extra: str = "") -> ModuleType:
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
            f"install it with: pip install 'masquerade{extra and f'[{extra}]'}'"
        ) from error


class Later:
    """``module``, imported when something of it is asked for.

    Example:
        >>> json = Later("json", extra="train")
        >>> json.loads("1")
        1
    """

    def __init__(self, module: str, *, extra: str = "") -> None:
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        return getattr(require(self._module, extra=self._extra), name)


def lighten(package: str) -> None:
    """Let modules of ``package`` be imported without all that its ``__init__`` imports.

    That runs as soon as something is asked of the package that only it can give.
    """
    spec = None if package in sys.modules else find_spec(package)
    if spec is not None:
        sys.modules[package] = module_from_spec(spec)
        sys.modules[package].__class__ = _Light


class _Light(ModuleType):
    """A package whose ``__init__`` did not run yet."""

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        if name.startswith("__") or spec is None or spec.loader is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _RUNNING:  # other threads wait until all of it has run
            if not self.__dict__.get(_BEGUN):
                self.__dict__[_BEGUN] = True
                spec.loader.exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None
