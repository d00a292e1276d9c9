"""Import packages of others: optional ones, and as little of each as is needed.

Functions that users bring in a Python file of their own; nothing of ours is loaded by it.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import runpy
import shlex
import sys
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from masquerade.errors import BadInput, MissingExtra


def require_extra(module: str, *, extra: str = "") -> ModuleType:
    """Import ``module`` or raise with the line that installs it; some need no extra.

    Example:
        >>> require_extra("json", extra="train").loads("1")
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


class lazy_module:
    """``module``, imported when something of it is asked for.

    Example:
        >>> json = lazy_module("json", extra="train")
        >>> json.loads("1")
        1
    """

    def __init__(self, module: str, *, extra: str = "") -> None:
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # asked of us by those who look for functions, not of the module
            raise AttributeError(name)
        module = sys.modules.get(self._module)
        if module is None or getattr(module.__spec__, "_initializing", False):  # by another thread
            module = require_extra(self._module, extra=self._extra)
        found = getattr(module, name)
        if isinstance(found, ModuleType):  # a part of a package is not asked for again
            self.__dict__[name] = found
        return found


class LazyNumba:
    """A loop that numba compiles when it is first called; as it stands where there is no numba.

    Example:
        >>> from operator import neg
        >>> has_numba() or LazyNumba(neg)(2) == -2
        True
    """

    def __init__(self, loop: Callable[..., Any]) -> None:
        self._loop = loop

    def __call__(self, *given: Any) -> Any:
        return self._jit_loop(*given)

    @cached_property
    def _jit_loop(self) -> Callable[..., Any]:
        return import_module("numba").njit(cache=True)(self._loop) if has_numba() else self._loop


def has_numba() -> bool:
    """Whether numba can be imported; it is not, yet."""
    try:
        return importlib.util.find_spec("numba") is not None
    except ImportError:  # a finder that refuses it
        return False


def load_alone(module: str) -> None:
    """Load one module of a package, so that a later import of it leaves the others unloaded.

    For a package that imports all of its parts, and long ones, where one small part is needed. The
    whole package can still be imported, and then shares this module.

    Example:
        >>> load_alone("email.charset")
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


def load_function(path: Path, name: str, *, signature: str) -> Callable[..., Any]:
    """The function of that name in a file, which is run for it.

    Args:
        path: of the file.
        name: of the function.
        signature: what it takes, for the message if it is not there.

    Raises:
        BadInput: if the file cannot be run, or has no such function.
    """
    wanted = f"{name}({signature})"
    if not path.is_file():
        raise BadInput(f"Expected a Python file with {wanted}, got {path}.")
    try:
        held = runpy.run_path(str(path), run_name=f"masquerade_own_{path.stem}")
    except Exception as error:
        raise BadInput(f"{path} cannot be run: {type(error).__name__}: {error}.") from error
    found = held.get(name)
    if not callable(found):
        raise BadInput(f"Expected {path} to have a function {wanted}; it has none.")
    return found  # type: ignore[no-any-return]


# What takes long to load is loaded when it is used: help and a promise need little of it.
if TYPE_CHECKING:
    import av
    import mpmath
    import scipy
    import sqlalchemy as sql
    import torch
    from scipy import ndimage, optimize, spatial, special, stats
else:
    av, mpmath = lazy_module("av"), lazy_module("mpmath")
    scipy, sql = lazy_module("scipy"), lazy_module("sqlalchemy")
    torch = lazy_module("torch", extra="train")
    ndimage, optimize = lazy_module("scipy.ndimage"), lazy_module("scipy.optimize")
    spatial, special, stats = (
        lazy_module("scipy.spatial"),
        lazy_module("scipy.special"),
        lazy_module("scipy.stats"),
    )

__all__ = [
    "LazyNumba",
    "av",
    "has_numba",
    "lazy_module",
    "load_alone",
    "mpmath",
    "ndimage",
    "optimize",
]
__all__ += ["require_extra", "scipy", "spatial", "special", "sql", "stats", "torch"]
