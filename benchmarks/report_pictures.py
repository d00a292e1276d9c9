"""Screenshots of the page for docs/report.md: a film of Stage, released, attacked and audited.

    python benchmarks/report_pictures.py --out docs/report

Debian's chromium draws them, driven by Playwright. Nobody in the film ever lived, so the private
page can be shown. The attack takes about two minutes of one core.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from masquerade import _json
from masquerade.cli.data import WriteSample
from masquerade.datasets.stage import Stage
from masquerade.publish.attack import attack_mechanism, make_attack
from masquerade.publish.pages import ReportContext, write_report
from masquerade.publish.recording import make_mechanism, release_file

KNOWN = Stage(seed=1, height=96, width=96, subjects=72, videos=432)
SETTINGS: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-4, "unit": "pixels", "pixels": 256}
FLAGS = "--no-sandbox --headless --disable-gpu"
# width, height, palette, and where the picture begins
SHOTS = {
    "wide-light": (1400, 900, "light", "h1"),
    "wide-dark": (1400, 900, "dark", "h1"),
    "phone-light": (360, 740, "light", "h1"),
    "phone-dark": (360, 740, "dark", ".cards"),
    "attack": (800, 500, "light", "main > section:nth-child(2)"),
    "choice": (800, 620, "light", "main > section:nth-child(3)"),
    "audit": (800, 360, "light", "main > section:nth-child(4)"),
}


def main() -> None:
    """Make the page in a folder that is thrown away, and keep pictures of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/report"))
    out = parser.parse_args().out
    if shutil.which("chromium") is None or find_spec("playwright") is None:
        print("no chromium or Playwright here; make test-browser installs them")
        return
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        draw(made(Path(folder)), out)


def made(folder: Path) -> Path:
    """The page."""
    WriteSample(out=folder).run()
    mechanism = make_mechanism("cosine_gaussian", **SETTINGS)
    release_file(folder / "ward.mp4", folder / "ward-public.mp4", mechanism)
    attack = make_attack("reidentify", by="body", joints="truth")
    found = attack_mechanism(attack, mechanism, KNOWN)
    answer = {"attack": "reidentify", "attackers": [_json.encode_noun(each) for each in found]}
    (folder / "found.json").write_text(json.dumps(answer))
    beside = ReportContext(
        original=folder / "ward.mp4", attacks=(folder / "found.json",), plays=True
    )
    return write_report([folder / "ward-public.mp4"], folder / "page.html", beside=beside)


def draw(page: Path, out: Path) -> None:
    """One picture a size and palette."""
    from playwright.sync_api import sync_playwright  # a tool of tests, not of measurements

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS.split())
        for name, (width, height, palette, start) in SHOTS.items():
            shown = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=palette
            )
            shown.goto(page.as_uri())
            shown.wait_for_function(
                "[...document.querySelectorAll('video')].every(v => v.readyState >= 2)"
            )
            top = shown.evaluate(
                "s => document.querySelector(s).getBoundingClientRect().top", start
            )
            shown.evaluate("y => scrollTo(0, Math.max(0, y - 16))", top)
            shown.screenshot(path=out / f"{name}.jpg", type="jpeg", quality=80)
            shown.close()
        browser.close()


if __name__ == "__main__":
    main()
