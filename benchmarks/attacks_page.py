"""The page of what attacks still find, from the answers that ``attacks.py`` kept.

One table a mechanism, above them one of all, and a line for each picture of the gallery.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Answer = Sequence[Mapping[str, Any]]

ALONE = "--split all --shares-subjects --bystanders 0"
PEOPLE = f"--data stage {ALONE} --subjects 24 --videos 144"
WALK = "--class-share 1 0 0 0 0 0 0 0 0 0 0 0"
LARGE = "--height 160 --width 160 --frames 32"
WALKERS = f"--data stage {ALONE} --subjects 14 --videos 56 {WALK} {LARGE}"
NEAR = f"--data stage {ALONE} --preset faces --subjects 14 --videos 112"
TOLD = "--attack-joints truth"
MANY = "--data stage --subjects 210 --videos 630 --frames 4 --rate-hz 2.5"
FEW = "--data stage --videos 126 --height 64 --width 64 --frames 20"
WATCH = "--data watch --unit value --low -10 --high 10"
COMMANDS = {
    "looks": f"attribute_inference {MANY}",
    "body": f"reidentify {PEOPLE}",
    "body, adaptive": f"reidentify {PEOPLE} --gallery released",
    "body, told where": f"reidentify {PEOPLE} {TOLD}",
    "body, told where, adaptive": f"reidentify {PEOPLE} {TOLD} --gallery released",
    "face": f"reidentify --by face {NEAR}",
    "face, adaptive": f"reidentify --by face --gallery released {NEAR}",
    "gait": f"reidentify --by gait {WALKERS}",
    "gait, adaptive": f"reidentify --by gait --gallery released {WALKERS}",
    "silhouette": f"reidentify --by silhouette {WALKERS}",
    "silhouette, adaptive": f"reidentify --by silhouette --gallery released {WALKERS}",
    "worn": f"reidentify --by worn {WATCH}",
    "worn, adaptive": f"reidentify --by worn --gallery released {WATCH}",
    "places": "place_retrieval --data stage --split all --videos 216 --attacker both --gallery 48",
    "reconstruct": f"reconstruct {FEW} --lessons 24 --holds 24",
}
_ORDER = tuple(dict.fromkeys(row for name in COMMANDS for row in (name, f"{name}, adaptive")))
KINDS = {  # what is asked, and the questions that ask it; the most that one of them finds counts
    "who, by body": ("body", "body, adaptive", "body, told where", "body, told where, adaptive"),
    "who, by face": ("face", "face, adaptive"),
    "who, by gait": ("gait", "gait, adaptive", "silhouette", "silhouette, adaptive"),
    "who, by a watch": ("worn", "worn, adaptive"),
    "where": ("places", "places, adaptive"),
}
PICTURES = {  # headings of the gallery whose mechanism stands under another name here
    "cosine_gaussian: one frame": "cosine_gaussian, a frame",
    "gaussian_noise": "gaussian_noise, 16 pixels",
    "public_mask_gaussian": "public_mask_gaussian, 16 pixels",
    "video_dprp: orthonormal": "video_dprp, 16 pixels",
}
ATTACKED = "Attackers on Stage"  # how the line of a picture begins
HEAD = """# What attacks still find, mechanism by mechanism

The same attackers on the same recordings, one mechanism after the other: films of people who never
lived ([Stage](../stage.md)), and a watch of ten people. `benchmarks/attacks.py` writes this page.
Mechanisms are as they come, at epsilon 8 and delta 1e-4 where they have a guarantee and nothing
else is said; each recording was released once. Measured 2026-11-16, and 2026-11-18 what was missing
then, avatars among it, on processors alone.

Read a row so: **found** is what the attacker gets of what was released, **raw** what the same
attacker gets of the originals, **random** what of nothing, each with its 95 % interval over people
or places. The last column follows from the three. A figure without an interval is a guess for every
recording: this attacker's eyes found nobody, which says as much of the eyes as of the mechanism.
"Told where" and "adaptive" are the stronger attackers. A low figure is no proof; only a guarantee
is one ([attacks](../attacks.md)). What people look like stands with [the
papers' tables](../results.md), what comes back of the picture with
[reconstruct](reconstruct.md).

| question | measure | command, and `--mechanism NAME` |
|---|---|---|
"""
ALL = """How often the right person or place comes first, by the best attacker of each kind, with
its 95 % interval; an empty cell was not measured. "Not told apart" is from random data; where
nobody was seen it says as much of the eyes as of the mechanism, so look at its own table.
"""
FOOT = """
What is missing in a mechanism's table was not measured. Figures are of one release and one world;
other seeds give others.
"""


def lines(answer: Answer) -> list[str]:
    """One line for each attacker."""
    return [
        f"{_way(each)} {' | '.join(_spans(each))} | {_verdict(each)}" for each in _shown(answer)
    ]


def markdown(
    held: Mapping[str, Mapping[str, Answer]], settings: Sequence[str], *, before: str = ""
) -> str:
    """The whole page; rows of the page before stay where nothing new was measured."""
    (asked, tables), noted = standing(before), notes(before)
    for name, answers in held.items():
        command = f"`masquerade attack {COMMANDS[name]}`"
        asked.setdefault(name, f"| {name} | {_measure(answers)} | {command} |")
        for setting, answer in answers.items():
            rows = tables.setdefault(setting, {})
            rows |= {name + _way(each): _row(name, each) for each in _shown(answer)}
    text = HEAD + "".join(f"{asked[name]}\n" for name in COMMANDS if name in asked)
    text += f"\n## All of them\n\n{ALL}\n{summary(tables, settings)}"
    for setting in settings:
        rows = tables.get(setting, {})
        if rows:
            top = "| question | found | raw | random | verdict |\n|---|---|---|---|---|\n"
            ordered = [rows[name] for name in _ORDER if name in rows]
            text += f"\n## {setting}\n\n{noted.get(setting, '')}{top}" + "\n".join(ordered) + "\n"
    return text + _left_out(tables, settings) + FOOT


def summary(tables: Mapping[str, Mapping[str, str]], settings: Sequence[str]) -> str:
    """A line a mechanism: the most that any attacker gets, and what follows from it."""
    lines = ["mechanism", *KINDS]
    text = _line(lines) + "|---" * len(lines) + "|\n"
    for setting in settings:
        if rows := tables.get(setting):
            most = [_most(rows, questions) for questions in KINDS.values()]
            cells = ["" if row is None else f"{row[2]}, {_brief(row[5])}" for row in most]
            text += _line([f"[{setting}](#{_anchor(setting)})", *cells])
    return text


def pictured(gallery: str, page: str) -> str:
    """The gallery with a line below each picture's figures: what attackers find in the like."""
    tables, kept, now = standing(page)[1], list[str](), ""
    for line in gallery.splitlines():
        if line.startswith(ATTACKED):
            kept.pop()  # the empty line before it
            continue
        if match := re.match(r"##+ (.*)", line):
            now = match[1]
        kept.append(line)
        if line.startswith("PSNR "):
            setting = PICTURES.get(now, now.replace(": ", ", "))
            kept += ["", said] if (said := _said(setting, tables.get(setting, {}))) else []
    return "\n".join(kept) + "\n"


def _said(setting: str, rows: Mapping[str, str]) -> str:
    told = []
    for kind, questions in KINDS.items():
        if (row := _most(rows, questions)) is not None:
            found, raw, nothing = (cell.partition(" (")[0] for cell in row[2:5])
            told.append(f"{kind} {found} (raw {raw}, random {nothing}), {_brief(row[5])}")
    link = f"[all figures](attacks/mechanisms.md#{_anchor(setting)})"
    return f"{ATTACKED} find ({link}): {'; '.join(told)}." if told else ""


def _most(rows: Mapping[str, str], questions: Sequence[str]) -> list[str] | None:
    """Cells of the row whose attacker finds most, as they stand; verdicts count before figures."""
    own = [[cell.strip() for cell in rows[name].split("|")] for name in questions if name in rows]
    worst = ("not stopped", "weakened, not stopped")
    rank = {verdict: len(worst) - at for at, verdict in enumerate(worst)}
    return max(own, key=lambda row: (rank.get(row[5], 0), float(row[2].split()[0])), default=None)


def _brief(verdict: str) -> str:
    return verdict.removesuffix(" from random data")


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def standing(page: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Lines of a page by question, and of each setting's table by row."""
    asked, tables, now = dict[str, str](), dict[str, dict[str, str]](), ""
    for line in page.splitlines():
        name = line.split("|")[1].strip() if line.startswith("| ") else ""
        if line.startswith("## "):
            now = line.removeprefix("## ")
        elif name in _ORDER:
            (tables.setdefault(now, {}) if now else asked)[name] = line
    return asked, tables


def notes(page: str) -> dict[str, str]:
    """What stands by hand between a setting's heading and its table."""
    found = {}
    for part in page.split("\n## ")[1:]:
        heading, _, rest = part.partition("\n")
        words, is_table, _ = rest.partition("| question | found |")
        if is_table and words.strip():
            found[heading] = f"{words.strip()}\n\n"
    return found


def _left_out(tables: Mapping[str, Mapping[str, str]], settings: Sequence[str]) -> str:
    """Which settings were asked nothing."""
    missing = [setting for setting in settings if not tables.get(setting)]
    return f"\nNot measured at all: {'; '.join(missing)}.\n" if missing else ""


def _row(name: str, each: Mapping[str, Any]) -> str:
    return f"| {name}{_way(each)} | {' | '.join(_spans(each))} | {_verdict(each)} |"


def _shown(answer: Answer) -> Answer:
    """Of the ways to undo a release the one that learned."""
    if answer and answer[0]["attack"] == "reconstruct":
        return [each for each in answer if each["attacker"] == "learned"]
    return answer


def _way(each: Mapping[str, Any]) -> str:
    """What tells two attackers of one question apart."""
    adapts = ("released in the same way", "released recordings of other places")
    if each["attack"] == "reidentify" or each["attack"] == "reconstruct":
        return ""
    return ", adaptive" if any(words in each["attacker"] for words in adapts) else ""


def _measure(answers: Mapping[str, Answer]) -> str:
    first = next(iter(answers.values()))[0]
    figure = first["published"][0]
    chance = "" if figure["chance"] is None else f", guessing {figure['chance']:.2f}"
    return f"{figure['measure']}, n = {figure['count']} {figure['of']}{chance}"


def _spans(each: Mapping[str, Any]) -> list[str]:
    return [_span(each[side][0]) for side in ("published", "ceiling", "floor")]


def _span(figure: Mapping[str, Any]) -> str:
    if figure["high"] - figure["low"] < 1e-9:
        return f"{figure['value']:.2f}"
    return f"{figure['value']:.2f} ({figure['low']:.2f} to {figure['high']:.2f})"


def _verdict(each: Mapping[str, Any]) -> str:
    return str(each["verdict"]).split(":")[0].lower()
