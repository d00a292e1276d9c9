"""A function in a Python file of the user's, such as a network that we may not carry ourselves."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from masquerade.errors import BadInput


def function_of(path: Path, name: str, *, takes: str) -> Callable[..., Any]:
    """The function ``name`` of a file, which is run.

    Args:
        path: of the file.
        name: of the function.
        takes: its arguments, in words of a signature.

    Raises:
        BadInput: if there is no such file, it cannot be run, or has no such function.
    """
    wanted = f"a Python file with {name}({takes})"
    if path.suffix != ".py" or not path.is_file():
        raise BadInput(f"Expected {wanted}, got {path}; there is no such file.")
    known = f"masquerade_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(known, path)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[known] = module  # dataclasses of its own look for it there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"{path} cannot be run: {type(error).__name__}: {error}.") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise BadInput(f"Expected {wanted}, got {path}, which has no such function; add it.")
    return found  # type: ignore[no-any-return]
