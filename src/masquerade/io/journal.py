"""What many tasks have given so far, as a file: a run that was stopped goes on where it was."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from masquerade import _json
from masquerade.errors import BadInput


class TaskJournal:
    """Finished tasks as a file: a line of JSON for each, on disk before the next step.

    A line that a crash has torn is dropped. The journal of another run is begun anew.

    Args:
        path: of the file.
        run: what has to be the same for its values to hold, in words or as a hash.
        is_resumed: whether values that stand there are taken over.
    """

    def __init__(self, path: Path, *, run: str = "", is_resumed: bool = True) -> None:
        self.path, self.run, self._is_resumed = path, run, is_resumed
        self.values: dict[str, Any] = {}
        self.seconds = 0.0
        self._descriptor = -1

    def __enter__(self) -> TaskJournal:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._begin()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def record(self, name: str, value: Any, seconds: float) -> Any:
        """Keep the value of a task, and give it as it will be read again."""
        line = json.dumps({"task": name, "value": _json.encode(value), "seconds": seconds})
        self._append(line)
        return self._take(json.loads(line))

    def remove(self) -> None:
        """Forget it all: the next run begins anew."""
        self.path.unlink(missing_ok=True)

    def _begin(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadInput(
                f"Expected a journal that no other run writes, got {self.path} ({error.strerror}); "
                "wait for that run, or choose another folder."
            ) from error
        whole = self.path.read_bytes()
        whole = whole[: whole.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        if not (self._is_resumed and lines and _parsed(lines[0]) == {"run": self.run}):
            os.ftruncate(self._descriptor, 0)
            self._append(json.dumps({"run": self.run}))
            return
        os.ftruncate(self._descriptor, len(whole))
        for found in map(_parsed, lines[1:]):
            if found is not None and {"task", "value", "seconds"} <= set(found):
                self._take(found)

    def _take(self, found: dict[str, Any]) -> Any:
        self.seconds += found["seconds"]
        self.values[found["task"]] = found["value"]
        return found["value"]

    def _append(self, line: str) -> None:
        data = line.encode() + b"\n"
        if os.write(self._descriptor, data) < len(data):
            raise OSError(f"Expected room on the disk of {self.path}; a line was cut off.")
        os.fsync(self._descriptor)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A line of a journal; None if it is no object."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
