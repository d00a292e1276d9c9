"""Functions that users bring in a Python file of their own; nothing of ours is loaded by it."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from masquerade.errors import BadInput


def function(path: Path, name: str, *, signature: str) -> Callable[..., Any]:
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
