"""Published files as sections of their page: pictures, curves and words, each checked before.

What was found out about a release, as sections of its page: attacks, audits, the budget.

Where a release stands among what the same mechanism could have made of it.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from masquerade import _json, catalog
from masquerade._formatting import counted, shown, shown_below
from masquerade.audits.game import Claim, MechanismGame
from masquerade.errors import BadInput
from masquerade.guarantee import WHOLE_FILE, Unit, UnitName
from masquerade.io import atomic, video
from masquerade.ledger import Ledger, words
from masquerade.mechanism import Mechanism, Plan, Shapes, VideoMechanism
from masquerade.publish.audits import audit_game
from masquerade.publish.receipts import Checked, promise_of, published_files, read_checked
from masquerade.publish.sources import Numbers, find
from masquerade.receipt import Receipt
from masquerade.report import media, page, plots, release_sections
from masquerade.report.page import PagePart, Section
from masquerade.scores import Attacked, Evidence

Audited: TypeAlias = tuple[str, Claim, Evidence]  # which game, its claim, what was shown

_TRIALS = 4_000  # as `masquerade audit` plays a film's mechanism
_AUDITED = (
    "An audit plays the best attack that is known against the claim, on made-up data. What it "
    "shows is a lower bound: it can prove a claim wrong, and never right. The figures are epsilon, "
    "the measure of what may leak; smaller is safer."
)


def attacks(path: Path) -> Section:
    """What `masquerade attack --out` wrote.

    Raises:
        BadInput: if it is something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = [_json.decode(Attacked, _bare(each)) for each in data["attackers"]]
        if not found:
            raise ValueError("it has no attacker")
        return release_sections.write_attack_section(str(data["attack"]), found)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadInput(
            f"Expected an answer of masquerade attack --out at {path}; it cannot be one: {error}"
        ) from error


def _bare(said: dict[str, Any]) -> dict[str, Any]:
    """Without what follows from the rest."""
    return {key: value for key, value in said.items() if key not in ("verdict", "is_telling")}


def audited(path: Path) -> Audited:
    """What `masquerade audit NAME --json` printed: which game, its claim and the evidence.

    Raises:
        BadInput: if it is something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        claim = _json.decode(Claim, data["claim"])
        return str(data["game"]), claim, _json.decode(Evidence, data["evidence"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadInput(
            f"Expected an answer of masquerade audit NAME --json at {path}; it cannot be one: "
            f"{error}"
        ) from error


def played(receipt: Receipt) -> Audited | None:
    """The receipt's own mechanism against its worst case; None where there is nothing to play."""
    if receipt.guarantee.epsilon is None or receipt.mechanism not in catalog.names("mechanisms"):
        return None
    game = MechanismGame(mechanism=promise_of(receipt), trials=_TRIALS)
    return receipt.mechanism, game.claim(), audit_game(game)


def write_audit_sections(found: Sequence[Audited]) -> Section:
    """Claim and evidence beside each other."""
    parts = [page.paragraphs([_AUDITED])]
    for name, claim, evidence in found:
        drawn = release_sections.svg(claim.epsilon, evidence.epsilon_at_least)
        said = (
            f"Claim: epsilon {shown(claim.epsilon)} at delta {shown(claim.delta)} for one "
            f"{claim.unit} ({claim.source}). Evidence: at least "
            f"{shown_below(evidence.epsilon_at_least, 4)} with confidence "
            f"{evidence.confidence:g}, {evidence.trials} trials in each of two worlds, "
            f"{evidence.attack}; {evidence.limit}. {evidence.assumes}"
        )
        parts += [
            page.heading(f"{name}: {evidence.verdict(claim.epsilon)}"),
            page.captioned(drawn, ""),
            page.folded("The same, exactly", page.paragraphs([said])),
        ]
    return Section(title="Claim, and what an audit shows", body="".join(parts), part=PagePart.AUDIT)


def budget(place: str) -> Section:
    """What is left to spend; names of accounts are private."""
    said = [line for each in Ledger(place).summaries() for line in words.sentences(each)]
    first = "A budget caps what all releases of the same recordings may give away together."
    body = page.paragraphs([first]) + page.listing(said or ["No account is open."])
    return Section(title="The budget left", body=body, has_originals=True, part=PagePart.BUDGET)


_EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_OF_FILMS: tuple[dict[str, Any], ...] = (
    {"unit": "pixels", "pixels": 16},
    {"unit": "pixels", "pixels": 256},
    {"unit": "frame", "pixels": None},
)
_OF_NUMBERS: tuple[dict[str, Any], ...] = (
    {"unit": "value", "pixels": None},
    {"unit": "frame", "pixels": None},
)
_LONG, _VERY_LONG = 256, 20_000  # frames; each point of a curve then takes a second or more
_OFF = 5.0  # times as far off as this release
_SAID = (
    "The more is protected, and the more surely, the less is left: that is the price, and every "
    "point of the curves could have been chosen. Further left is safer. Everything here follows "
    "from settings alone; no recording was looked at."
)


def section(receipt: Receipt, *, name: str = "") -> Section | None:
    """Curves of the mechanism for several units, this release marked; None where none is proved.

    Models have none: what is left of them depends on the data.

    Args:
        receipt: that was checked.
        name: of its file, where there are several.
    """
    promised = receipt.guarantee
    is_sound = promised.epsilon is not None and promised.published_claim is None
    if not is_sound or receipt.mechanism not in catalog.names("mechanisms"):
        return None
    mechanism, shapes = promise_of(receipt), receipt.shapes
    if _frames(mechanism, shapes) > _LONG and promised.unit.name in WHOLE_FILE:
        return None  # which takes minutes
    plan = mechanism.plan(shapes)
    measured, is_seen = _left(plan), plan.visible_share is not None
    if measured is None or "epsilon" not in mechanism.fields():
        return None
    most = math.inf if is_seen else _OFF * measured  # what is further off would flatten the rest
    curves = _curves_report_frontier(mechanism, shapes, most, is_seen=is_seen)
    if not curves:
        return None
    label = "left of the picture, %" if is_seen else "a number is off by about"
    noticed = 100 * receipt.guarantee.noticed
    drawn = plots.draw_choice(curves, this=(noticed, measured), y_label=label)
    title = f"What could have been chosen{f': {name}' if name else ''}"
    said = [_SAID if is_seen else _SAID.replace("the less is left", "the further off is a number")]
    body = page.paragraphs(said) + page.captioned(drawn, "")
    return Section(title=title, body=body, part=PagePart.FRONTIER)


def _curves_report_frontier(
    mechanism: Any, shapes: Shapes, most: float, *, is_seen: bool
) -> list[plots.ChoiceCurve]:
    """The release's own unit first, then others whose curves are not the same."""
    changes = _OF_FILMS if is_seen else _OF_NUMBERS
    has_others = {"unit", "pixels"} <= set(mechanism.fields())
    has_others = has_others and _frames(mechanism, shapes) <= _VERY_LONG
    others = [mechanism]
    for change in changes if has_others else ():
        with contextlib.suppress(ValueError):  # a unit that this mechanism does not have
            others.append(replace(mechanism, **change))
    found: list[plots.ChoiceCurve] = []
    for other in others:
        with contextlib.suppress(ValueError):  # or that this shape does not have
            is_own = other is mechanism
            curve = _curve(other, shapes, most, says=" (as here)" * is_own)
            if curve is not None and not any(_alike(curve, drawn) for drawn in found):
                found.append(curve)
    return found


def _curve(mechanism: Any, shapes: Shapes, most: float, *, says: str) -> plots.ChoiceCurve | None:
    """One mechanism at several epsilons, where it is no further off than ``most``."""
    points, unit = [], ""
    few = _frames(mechanism, shapes) > _LONG
    for epsilon in _EPSILONS[2::2] if few else _EPSILONS:
        plan = replace(mechanism, epsilon=epsilon).plan(shapes)
        left, unit = _left(plan), _named(plan.guarantee.unit)
        if left is not None and left <= most:
            points.append((100 * plan.guarantee.noticed, left))
    if len(points) < 2:
        return None
    name = f"protected: {unit}{says}"
    noticed, left_of = zip(*points, strict=True)
    return plots.ChoiceCurve(name=name, noticed=noticed, left=left_of)


def _alike(one: plots.ChoiceCurve, other: plots.ChoiceCurve) -> bool:
    """One column of a table: a row is a number."""
    if len(one.left) != len(other.left):
        return False
    return all(math.isclose(a, b, rel_tol=1e-3) for a, b in zip(one.left, other.left, strict=True))


def _frames(mechanism: Mechanism, shapes: Shapes) -> int:
    """Of a film; numbers are quick however many there are."""
    return shapes[0][0] if isinstance(mechanism, VideoMechanism) else 1


def _left(plan: Plan) -> float | None:
    """Share of a picture's variation, or the noise on a number."""
    return plan.expected_error if plan.visible_share is None else 100 * plan.visible_share


def _named(unit: Unit) -> str:
    match unit.name:
        case UnitName.PIXELS:
            return f"any {unit.sites:,} dots (pixels)"
        case UnitName.TUBE:
            return f"a spot of {unit.sites:,} dots in every frame"
        case UnitName.FRAME:
            return "one frame, or one row"
        case UnitName.VALUE:
            return "one number"
        case _:
            return "the whole file"


_SHOWN = 4  # films or pictures of those that were released in one way
_MOST_BYTES = 24 << 20  # of films in a page; after that single frames are shown
_MOST_NAMES = 200


def check_files(files: Sequence[Path], *, signers: Sequence[Path | str] = ()) -> list[Checked]:
    """All of them, films first.

    Args:
        files: published files.
        signers: public keys that the reader trusts.

    Raises:
        BadInput: for the first that does not agree with its receipt; it says why.
    """
    found = [read_checked(path, signers=signers) for path in files]
    return sorted(found, key=lambda one: not one.is_film)


def write_file_sections(found: Sequence[Checked], original: Path | None) -> list[Section]:
    """A section for each way in which files were released.

    Args:
        found: what was published.
        original: what one of them was before; then it is the only one.
    """
    ways: dict[str, list[Checked]] = {}
    for one in found:
        ways.setdefault(_way(one), []).append(one)
    made: list[Section] = []
    for files in ways.values():
        is_still = sum(len(section.body) for section in made) > _MOST_BYTES
        made.append(_section(files, original, is_still=is_still))
    return made


def _way(one: Checked) -> str:
    """Files that share it are promised the same, in the same words."""
    said = json.loads(one.receipt.to_json())
    same = [said[key] for key in ("mechanism", "fields", "guarantee", "is_rehearsal")]
    doubts = [one.signed_by, one.doubt]
    return json.dumps([one.is_film, *doubts, *same, one.receipt.kept_sound], sort_keys=True)


def _section(files: list[Checked], original: Path | None, *, is_still: bool) -> Section:
    first, *others = files
    title = f"{counted(len(files), 'file')}, all released in one way" if others else first.name
    unit = media.unit_on_frame(first.receipt.guarantee.unit, first.path) if first.is_film else ""
    section = release_sections.write_release_section(
        title,
        first.receipt,
        pictures=_pictures(files, original, is_still=is_still),
        unit=unit,
        is_film=first.is_film,
        cautions=release_sections.cautions(
            first.receipt,
            is_film=first.is_film,
            is_signed=first.signed_by is not None,
            doubt=first.doubt,
        ),
    )
    names = tuple(one.name for one in files)
    return replace(section, has_originals=original is not None, names=names)


def _pictures(files: list[Checked], original: Path | None, *, is_still: bool) -> str:
    first = files[0]
    if first.receipt.mechanism and first.path.suffix == ".safetensors":
        return page.paragraphs([f"A model that was trained by {first.receipt.mechanism}."])
    if not first.is_film:
        return _curves_report_files(first, original) + _names(files)
    if original is not None:
        if not video.is_video(original):
            raise BadInput(f"Expected a film or a picture as --original, got {original.name}.")
        return media.side_by_side([("Before (private)", original), ("Published", first.path)])
    several = len(files) > 1
    pairs = [(one.name if several else "Published", one.path) for one in files[:_SHOWN]]
    return media.side_by_side(pairs, is_still=is_still) + _names(files)


def _names(files: list[Checked]) -> str:
    """Which files they are, where there are several."""
    if len(files) == 1:
        return ""
    said = [one.name for one in files[:_MOST_NAMES]]
    if len(files) > len(said):
        said.append(f"and {counted(len(files) - len(said), 'file')} more")
    return page.folded("Which files", page.listing(said))


def _curves_report_files(one: Checked, original: Path | None) -> str:
    """The first column of numbers that vary over time; nothing for anything else."""
    shapes = one.receipt.shapes
    drawn = {"published": _column(one.path, shapes)}
    if original is not None:
        drawn = {"before": _column(original, shapes), **drawn}
    if any(column is None for column in drawn.values()):
        return page.paragraphs(["Numbers that are not drawn here."])
    told = {name: column for name, column in drawn.items() if column is not None}
    columns = shapes[0][1] if len(shapes[0]) == 2 else 1
    caption = "The numbers in order." if columns == 1 else f"The first of {columns} columns."
    return page.captioned(plots.draw_series(told), caption)


def _column(path: Path, shapes: Shapes) -> np.ndarray | None:
    """The first column of the file's first array, if it is a table or a list of numbers."""
    for heading in (False, True):
        try:
            found = find(path, heading=heading)
        except BadInput:
            if heading or path.suffix.lower() != ".csv":
                raise
            continue
        if isinstance(found, Numbers) and (found.shapes == shapes or heading):
            break
        if path.suffix.lower() != ".csv":
            break
    if not isinstance(found, Numbers):
        raise BadInput(f"Expected numbers as --original, got {path.name}.")
    array = np.asarray(found.table.arrays[0], dtype=np.float64)
    if array.ndim > 2 or array.ndim == 0 or len(array) < 2:
        return None
    column = array if array.ndim == 1 else array[:, 0]
    return column if np.isfinite(column).sum() > 1 else None


_FRONTIERS = 3  # plots, where there are more mechanisms
_LEFT_OUT = "What is private (originals, attacks, the ledger) was left out of this page."


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What else a page shows; audits are of made-up data, all the rest is private.

    Args:
        original: the file before, shown beside the one published file.
        attacks: answers of `masquerade attack --out`.
        ledger: a path, or postgresql://...
        audits: answers of `masquerade audit NAME --json`.
        plays: audit each mechanism with the settings of its receipt, now.
    """

    original: Path | None = None
    attacks: tuple[Path, ...] = ()
    ledger: str | None = None
    audits: tuple[Path, ...] = ()
    plays: bool = False

    @property
    def is_private(self) -> bool:
        """Whether anything private is shown."""
        return bool(self.original or self.attacks or self.ledger is not None)


def write_report(
    files: Sequence[Path | str],
    target: Path | str,
    *,
    beside: Beside | None = None,
    public: bool = False,
    signers: Sequence[Path | str] = (),
) -> Path:
    """Check the receipt of every published file, and write one page about them all.

    Args:
        files: published files, or folders of them; their receipts stand beside them.
        target: the page; without what is private it may be published.
        beside: what is private, shown beside it.
        public: leave all that is private out, and say so.
        signers: public keys that you trust; what they have not signed is stamped so.

    Raises:
        BadInput: if a file and its receipt do not agree; nothing is written.
        ValueError: if the page would stand in place of something else.
    """
    _write(files, Path(target), beside=beside or Beside(), public=public, signers=signers)
    return Path(target)


def _write(
    files: Sequence[Path | str],
    target: Path,
    *,
    beside: Beside,
    public: bool,
    signers: Sequence[Path | str],
) -> list[str]:
    """Check the receipts and write the page; how it is stamped."""
    _check_target(target, [Path(each) for each in files])
    found = published_files(files)
    if not found:
        raise ValueError("Expected at least one published file.")
    used = Beside(audits=beside.audits, plays=beside.plays) if public else beside
    if used.original is not None and len(found) != 1:
        raise ValueError(
            f"Expected one published file beside --original, got {len(found)}; a page for each."
        )
    checked = check_files(found, signers=signers)
    sections = write_file_sections(checked, used.original)
    sections += map(attacks, used.attacks)
    sections += _frontiers(checked)
    if used.ledger is not None:
        sections.append(budget(used.ledger))
    audits = _audits(checked, beside)  # of made-up data, so public
    sections += [write_audit_sections(audits)] if audits else []
    named = [(one.name, one.receipt) for one in checked]
    sections.append(release_sections.receipts(named, texts=[one.text for one in checked]))
    lead = _lead(checked, is_public=public, is_private=used.is_private)
    text = page.page("What was published", sections, lead=lead)
    kind, stamps = page.stamps(sections)
    atomic.write_whole(target, text.encode(), is_private=kind == "private")
    return stamps


def _check_target(target: Path, files: Sequence[Path]) -> None:
    """A page replaces no recording, and does not stand among what is published."""
    if target.suffix.lower() not in (".html", ".htm") or target.is_dir():
        raise ValueError(f"Expected a page's name that ends in .html for --out, got {target}.")
    for folder in (file for file in files if file.is_dir()):
        if target.resolve().is_relative_to(folder.resolve()):
            raise ValueError(
                f"Expected the page outside of the published folder, got {target}; it has no "
                "receipt, and may be private. Choose another folder."
            )


def _frontiers(checked: Sequence[Checked]) -> list[page.Section]:
    """One for the first file of each mechanism."""
    first = {one.receipt.mechanism: one for one in reversed(checked)}
    found = [
        section(one.receipt, name=one.name if len(checked) > 1 else "")
        for one in reversed(first.values())
    ]
    return [section for section in found if section is not None][:_FRONTIERS]


def _audits(checked: Sequence[Checked], beside: Beside) -> list[Audited]:
    """What was given, and what is played now: the first file of each mechanism."""
    found = [audited(path) for path in beside.audits]
    if beside.plays:
        first = {one.receipt.mechanism: one.receipt for one in reversed(checked)}
        games = map(played, reversed(first.values()))
        found += [game for game in games if game is not None]
    return found


def _lead(found: Sequence[Checked], *, is_public: bool, is_private: bool) -> str:
    """Whose word the receipts are and, where no stamp says so, what the files have against them."""
    first, *others = found
    said = f"{first.name} is {first.standing}."
    if others:
        signed = sum(one.signed_by is not None for one in found)
        said = (
            f"All {len(found)} files are consistent with their receipts. Keys that were named have "
            f"signed {signed} of these; anyone could have written the others."
        )
    doubts = [f" {one.name}: {one.doubt}" for one in found if one.doubt and is_private]
    return said + "".join(doubts) + f" {_LEFT_OUT}" * is_public
