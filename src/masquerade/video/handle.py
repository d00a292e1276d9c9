"""Files as FFmpeg gets them: by their descriptor, so that it reads and writes them by itself.

PyAV can call a Python stream instead, but an interrupt that arrives inside such a call is lost, and
the film goes on with a hole in it. Through a descriptor no Python runs inside FFmpeg: an interrupt
waits until it is done, and an error of the disk is its own. A descriptor has no name either, by
which FFmpeg would guess the format before looking inside.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import BinaryIO


def address(file: BinaryIO) -> str:
    """What to open in the file's place; the file must stay open as long."""
    os.lseek(file.fileno(), 0, os.SEEK_SET)  # some systems share the place, others begin anew
    return f"file:/dev/fd/{file.fileno()}"


@contextlib.contextmanager
def as_file(stream: BinaryIO) -> Iterator[BinaryIO]:
    """The stream itself, or a temporary file whose content it gets at the end if all went well."""
    try:
        stream.fileno()
    except io.UnsupportedOperation:
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            shutil.copyfileobj(file, stream)
        return
    yield stream
    stream.seek(0, os.SEEK_END)
