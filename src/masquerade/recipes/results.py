"""What a recipe found, as files: JSON for machines, a table and plots for people."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masquerade.files import atomic


@dataclass(frozen=True, kw_only=True)
class Results:
    """One run of a recipe.

    Args:
        title: of the section in the docs.
        command: that gives it again.
        text: Markdown: tables, and what they show.
        data: the same as plain values.
        seconds: it took.
        device: cpu, or the name of the GPU.
        plots: SVG texts by name.
    """

    title: str
    command: str
    text: str
    data: Mapping[str, Any]
    seconds: float
    device: str = "cpu"
    plots: Mapping[str, str] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """Where and when: the sentence that every number needs."""
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        machine += "" if self.device == "cpu" else f", {self.device}"
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        return f"`{self.command}`; {machine}; {today}; {self.seconds:.0f} s."

    def write(self, out: Path) -> list[str]:
        """Write ``results.json``, ``table.md`` and the plots into a folder; say so."""
        out.mkdir(parents=True, exist_ok=True)
        found = {"origin": self.origin, **self.data}
        atomic.write_whole(out / "results.json", (json.dumps(found, indent=1) + "\n").encode())
        atomic.write_whole(out / "table.md", self.text.encode())
        for name, drawn in self.plots.items():
            atomic.write_whole(out / f"{name}.svg", drawn.encode())
        return [self.text, f"Wrote {out}/results.json, table.md and {len(self.plots)} plots."]

    def append(self, page: Path) -> None:
        """Add a section to a page of the docs, with its plots in a folder of the page's name."""
        pictures = page.with_suffix("")
        parts = [f"\n## {self.title}\n", self.origin + "\n", self.text]
        for name, drawn in self.plots.items():
            pictures.mkdir(parents=True, exist_ok=True)
            atomic.write_whole(pictures / f"{name}.svg", drawn.encode())
            parts.append(f"\n![{name}]({pictures.name}/{name}.svg)\n")
        before = page.read_text(encoding="utf-8") if page.is_file() else ""
        atomic.write_whole(page, (before.rstrip("\n") + "\n" + "\n".join(parts)).encode())
