"""Import packages of others: optional ones, and as little of each as is needed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shlex
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from masquerade.errors import MissingExtra


def require(module: str, *, extra: str = "") -> ModuleType:
    """Import ``module`` or raise with the line that installs it; some need no extra.

    Example:
        >>> require("json", extra="train").loads("1")
        1
    """
    try:
        return import_module(module)
    except MissingExtra:  # which says more of it
        raise
    except ImportError as error:
        raise MissingExtra(
            f"{module} is needed here and cannot be imported ({error}); "
            f"install it with: {shlex.quote(sys.executable)} -m pip install "
            f"'masquerade{f'[{extra}]' if extra else ''}'"
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
        if name == "__wrapped__":  # asked of us by those who look for functions, not of the module
            raise AttributeError(name)
        return getattr(require(self._module, extra=self._extra), name)


def alone(module: str) -> None:
    """Load one module of a package, so that a later import of it leaves the others unloaded.

    For a package that imports all of its parts, and long ones, where one small part is needed. The
    whole package can still be imported, and then shares this module.

    Example:
        >>> alone("email.charset")
        >>> from email.charset import Charset
    """
    package = module.rpartition(".")[0]
    whole = importlib.util.find_spec(package)
    if module in sys.modules or package in sys.modules or whole is None:
        return
    folders = whole.submodule_search_locations
    spec = importlib.machinery.PathFinder.find_spec(module, folders)
    if spec is None or spec.loader is None:
        return  # an ordinary import finds it, or says what is missing
    part = importlib.util.module_from_spec(spec)
    sys.modules[module] = part
    try:
        spec.loader.exec_module(part)
    except BaseException:
        del sys.modules[module]
        raise
