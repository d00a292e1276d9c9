"""A program: pip, ended the moment a source archive has come, before anything of it is run.

pip takes an sdist apart and runs its ``setup.py`` only to learn its name, and has no option against
it. So this process watches itself: when the archive is first opened to be read, it has come; it is
copied out and the process ends there. If pip should ever start a Python before, it ends as well.

Usage: only_download.py ARCHIVE FOLDER ARGUMENTS-OF-PIP...
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_START_EVENTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"}


def normalize_name(name: str) -> str:
    """A file's name as the index may not have spelt it.

    Example:
        >>> normalize_name("Toy.Face_x-1.0.tar.gz")
        'toy-face-x-1-0-tar-gz'
    """
    return re.sub("[-_.]+", "-", name).lower()


def stop_on_open(archive: str, folder: Path) -> None:
    """End this process once it reads a file of the name ``archive``; a copy is left in folder."""
    ending: list[bool] = []

    def end_on_open(event: str, arguments: tuple[Any, ...]) -> None:
        if ending:
            return
        if event == "open" and isinstance(arguments[0], str) and arguments[1] in ("r", "rb"):
            name = os.path.basename(arguments[0])  # noqa: PTH119 # every open comes by here
            if normalize_name(name) == archive:
                ending.append(True)
                shutil.copyfile(arguments[0], folder / name)
                os._exit(0)
        elif event in _START_EVENTS and sys.executable in map(str, arguments[:2]):
            os.write(2, b"\nERROR: it was about to run what came, and was stopped\n")
            os._exit(1)

    sys.addaudithook(end_on_open)


def main() -> None:
    """Run pip."""
    archive, folder, *words = sys.argv[1:]
    stop_on_open(normalize_name(archive), Path(folder))
    sys.exit(import_module("pip._internal.cli.main").main(words))


if __name__ == "__main__":
    main()
