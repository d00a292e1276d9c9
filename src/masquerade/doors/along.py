"""Files that are published with an output and have its name, such as masks: all of them or none.

They are staged like the output and named after the receipt and before the output, so that whoever
sees the output sees all. The receipt holds their SHA-256: what a stopped run has left is known by
it, and nothing else that stands under such a name is ever replaced or removed.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

from masquerade.files import atomic
from masquerade.noise import Noise
from masquerade.receipt import Receipt, along_path, receipt_path


class Writes(Protocol):
    """What writes one file alone."""

    def write(self, stream: BinaryIO, noise: Noise) -> None:
        """Do the work, and write what may be seen."""


@runtime_checkable
class Accompanied(Protocol):
    """What may be published together with other files, such as masks; all or none of them."""

    @property
    def along(self) -> tuple[str, ...]:
        """The suffixes of the others, which have the output's name; none: it goes alone."""

    def write_with(
        self, stream: BinaryIO, others: Mapping[str, BinaryIO], noise: Noise
    ) -> Mapping[str, int]:
        """Do the work and write all of them; what the receipt states in numbers."""


@contextlib.contextmanager
def staged(thing: Writes, target: Path) -> Iterator[dict[str, atomic.Part]]:
    """New files beside the output, by their suffixes; what stands there is never replaced."""
    with contextlib.ExitStack() as stack:
        yield {
            suffix: stack.enter_context(atomic.staged(along_path(target, suffix), replaces=False))
            for suffix in _suffixes(thing)
        }


def _suffixes(thing: Writes) -> tuple[str, ...]:
    return thing.along if isinstance(thing, Accompanied) else ()


def write(
    thing: Writes, output: atomic.Part, others: Mapping[str, atomic.Part], noise: Noise
) -> dict[str, Any]:
    """Do the work; what the receipt says of the files that go along."""
    if not others or not isinstance(thing, Accompanied):
        thing.write(output.stream, noise)
        return {}
    streams = {suffix: part.stream for suffix, part in others.items()}
    counted = thing.write_with(output.stream, streams, noise)
    return {
        "along": {suffix: part.seal() for suffix, part in others.items()},
        "counted": dict(counted),
    }


def refuse_strangers(thing: Writes, target: Path) -> None:
    """A file that would go along has its place free, or a run of ours has left it there.

    Raises:
        FileExistsError: if it is another's.
    """
    ours = left(target)
    for suffix in _suffixes(thing):
        path = along_path(target, suffix)
        if path in (target, receipt_path(target)):
            raise ValueError(f"Expected another name for the output than {target}; it is taken.")
        if (path.exists() or path.is_symlink()) and path not in ours:
            raise FileExistsError(
                f"{path} stands there and is no output of this release, so it is not replaced. "
                "Move it away, or choose another name."
            )


def left(target: Path) -> list[Path]:
    """The files beside an output that its receipt names, if they are the very ones."""
    try:
        receipt = Receipt.from_json(receipt_path(target).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    found = {along_path(target, suffix): digest for suffix, digest in receipt.along.items()}
    return [path for path, digest in found.items() if _sha256(path) == digest]


def _sha256(path: Path) -> str | None:
    if path.is_symlink() or not path.is_file():
        return None
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
