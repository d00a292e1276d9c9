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
from masquerade._formatting import format_count, format_rounded_down, format_rounded_up
from masquerade.audits.game import Claim, MechanismGame
from masquerade.errors import BadInput
from masquerade.guarantee import WHOLE_FILE, Unit, UnitName
from masquerade.io import atomic, video
from masquerade.ledger import Ledger, words
from masquerade.mechanism import Mechanism, Plan, Shapes, VideoMechanism
from masquerade.publish.audits import audit_game
from masquerade.publish.receipts import (
    CheckedFile,
    list_published_files,
    make_promise,
    read_checked,
)
from masquerade.publish.sources import ArrayRecording, probe_recording
from masquerade.receipt import Receipt
from masquerade.report import media, page, plots, release_sections
from masquerade.report.page import PagePart, Section
from masquerade.scores import AttackResult, Evidence

Audited: TypeAlias = tuple[str, Claim, Evidence]  # which game, its claim, what was shown

_NUM_TRIALS = 4_000  # as `masquerade audit` plays a film's mechanism
_AUDIT_NOTE = (
    "An audit plays the best attack that is known against the claim, on made-up data. What it "
    "shows is a lower bound: it can prove a claim wrong, and never right. The figures are epsilon, "
    "the measure of what may leak; smaller is safer."
)


def make_attack_section(path: Path) -> Section:
    """What `masquerade attack --out` wrote.

    Raises:
        BadInput: if it is something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = [
            _json.decode_noun(AttackResult, _strip_derived(each)) for each in data["attackers"]
        ]
        if not found:
            raise ValueError("it has no attacker")
        return release_sections.write_attack_section(str(data["attack"]), found)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadInput(
            f"Expected an answer of masquerade attack --out at {path}; it cannot be one: {error}"
        ) from error


def _strip_derived(result: dict[str, Any]) -> dict[str, Any]:
    """Without what follows from the rest."""
    return {key: value for key, value in result.items() if key not in ("verdict", "is_telling")}


def read_audit(path: Path) -> Audited:
    """What `masquerade audit NAME --json` printed: which game, its claim and the evidence.

    Raises:
        BadInput: if it is something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        claim = _json.decode_noun(Claim, data["claim"])
        return str(data["game"]), claim, _json.decode_noun(Evidence, data["evidence"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadInput(
            f"Expected an answer of masquerade audit NAME --json at {path}; it cannot be one: "
            f"{error}"
        ) from error


def play_audit(receipt: Receipt) -> Audited | None:
    """The receipt's own mechanism against its worst case; None where there is nothing to play."""
    if receipt.guarantee.epsilon is None or receipt.mechanism not in catalog.list_entries(
        "mechanisms"
    ):
        return None
    game = MechanismGame(mechanism=make_promise(receipt), trials=_NUM_TRIALS)
    return receipt.mechanism, game.claim(), audit_game(game)


def write_audit_sections(found: Sequence[Audited]) -> Section:
    """Claim and evidence beside each other."""
    parts = [page.format_paragraphs([_AUDIT_NOTE])]
    for name, claim, evidence in found:
        drawn = release_sections.draw_leaks(claim.epsilon, evidence.epsilon_at_least)
        said = (
            f"Claim: epsilon {format_rounded_up(claim.epsilon)} at delta "
            f"{format_rounded_up(claim.delta)} for one "
            f"{claim.unit} ({claim.source}). Evidence: at least "
            f"{format_rounded_down(evidence.epsilon_at_least, 4)} with confidence "
            f"{evidence.confidence:g}, {evidence.trials} trials in each of two worlds, "
            f"{evidence.attack}; {evidence.limit_words}. {evidence.assumes}"
        )
        parts += [
            page.format_heading(f"{name}: {evidence.describe_verdict(claim.epsilon)}"),
            page.caption_picture(drawn, ""),
            page.fold_body("The same, exactly", page.format_paragraphs([said])),
        ]
    return Section(title="Claim, and what an audit shows", body="".join(parts), part=PagePart.AUDIT)


def make_budget_section(place: str) -> Section:
    """What is left to spend; names of accounts are private."""
    said = [line for each in Ledger(place).list_summaries() for line in words.format_summary(each)]
    first = "A budget caps what all releases of the same recordings may give away together."
    body = page.format_paragraphs([first]) + page.format_listing(said or ["No account is open."])
    return Section(title="The budget left", body=body, has_originals=True, part=PagePart.BUDGET)


_PLOT_EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_FILM_UNITS: tuple[dict[str, Any], ...] = (
    {"unit": "pixels", "pixels": 16},
    {"unit": "pixels", "pixels": 256},
    {"unit": "frame", "pixels": None},
)
_NUMBER_UNITS: tuple[dict[str, Any], ...] = (
    {"unit": "value", "pixels": None},
    {"unit": "frame", "pixels": None},
)
_NUM_FRAMES, _NUM_ROWS = 256, 20_000  # frames; each point of a curve then takes a second or more
_MAX_ERROR_RATIO = 5.0  # times as far off as this release
_FRONTIER_NOTE = (
    "The more is protected, and the more surely, the less is left: that is the price, and every "
    "point of the curves could have been chosen. Further left is safer. Everything here follows "
    "from settings alone; no recording was looked at."
)


def make_frontier_section(receipt: Receipt, *, name: str = "") -> Section | None:
    """Curves of the mechanism for several units, this release marked; None where none is proved.

    Models have none: what is left of them depends on the data.

    Args:
        receipt: that was checked.
        name: of its file, where there are several.
    """
    promised = receipt.guarantee
    is_sound = promised.epsilon is not None and promised.published_claim is None
    if not is_sound or receipt.mechanism not in catalog.list_entries("mechanisms"):
        return None
    mechanism, shapes = make_promise(receipt), receipt.shapes
    if _count_frames(mechanism, shapes) > _NUM_FRAMES and promised.unit.name in WHOLE_FILE:
        return None  # which takes minutes
    plan = mechanism.plan(shapes)
    measured, is_seen = _find_frontier_value(plan), plan.visible_share is not None
    if measured is None or "epsilon" not in mechanism.encode_fields():
        return None
    most = (
        math.inf if is_seen else _MAX_ERROR_RATIO * measured
    )  # what is further off would flatten the rest
    curves = _list_frontier_curves(mechanism, shapes, most, is_seen=is_seen)
    if not curves:
        return None
    label = "left of the picture, %" if is_seen else "a number is off by about"
    noticed = 100 * receipt.guarantee.detection_rate
    drawn = plots.draw_choice(curves, this=(noticed, measured), y_label=label)
    title = f"What could have been chosen{f': {name}' if name else ''}"
    said = [
        _FRONTIER_NOTE
        if is_seen
        else _FRONTIER_NOTE.replace("the less is left", "the further off is a number")
    ]
    body = page.format_paragraphs(said) + page.caption_picture(drawn, "")
    return Section(title=title, body=body, part=PagePart.FRONTIER)


def _list_frontier_curves(
    mechanism: Any, shapes: Shapes, most: float, *, is_seen: bool
) -> list[plots.ChoiceCurve]:
    """The release's own unit first, then others whose curves are not the same."""
    changes = _FILM_UNITS if is_seen else _NUMBER_UNITS
    has_others = {"unit", "pixels"} <= set(mechanism.encode_fields())
    has_others = has_others and _count_frames(mechanism, shapes) <= _NUM_ROWS
    others = [mechanism]
    for change in changes if has_others else ():
        with contextlib.suppress(ValueError):  # a unit that this mechanism does not have
            others.append(replace(mechanism, **change))
    found: list[plots.ChoiceCurve] = []
    for other in others:
        with contextlib.suppress(ValueError):  # or that this shape does not have
            is_own = other is mechanism
            curve = _make_choice_curve(other, shapes, most, says=" (as here)" * is_own)
            if curve is not None and not any(_are_curves_equal(curve, drawn) for drawn in found):
                found.append(curve)
    return found


def _make_choice_curve(
    mechanism: Any, shapes: Shapes, max_error: float, *, says: str
) -> plots.ChoiceCurve | None:
    """One mechanism at several epsilons, where it is no further off than ``max_error``."""
    points, unit = [], ""
    few = _count_frames(mechanism, shapes) > _NUM_FRAMES
    for epsilon in _PLOT_EPSILONS[2::2] if few else _PLOT_EPSILONS:
        plan = replace(mechanism, epsilon=epsilon).plan(shapes)
        left, unit = _find_frontier_value(plan), _name_unit(plan.guarantee.unit)
        if left is not None and left <= max_error:
            points.append((100 * plan.guarantee.detection_rate, left))
    if len(points) < 2:
        return None
    name = f"protected: {unit}{says}"
    noticed, left_of = zip(*points, strict=True)
    return plots.ChoiceCurve(name=name, noticed=noticed, left=left_of)


def _are_curves_equal(one: plots.ChoiceCurve, other: plots.ChoiceCurve) -> bool:
    """One column of a table: a row is a number."""
    if len(one.left) != len(other.left):
        return False
    return all(math.isclose(a, b, rel_tol=1e-3) for a, b in zip(one.left, other.left, strict=True))


def _count_frames(mechanism: Mechanism, shapes: Shapes) -> int:
    """Of a film; numbers are quick however many there are."""
    return shapes[0][0] if isinstance(mechanism, VideoMechanism) else 1


def _find_frontier_value(plan: Plan) -> float | None:
    """Share of a picture's variation, or the noise on a number."""
    return plan.expected_error if plan.visible_share is None else 100 * plan.visible_share


def _name_unit(unit: Unit) -> str:
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


_MAX_PICTURES = 4  # films or pictures of those that were released in one way
_MAX_PAGE_BYTES = 24 << 20  # of films in a page; after that single frames are shown
_MAX_NAMES = 200


def check_files(files: Sequence[Path], *, signers: Sequence[Path | str] = ()) -> list[CheckedFile]:
    """All of them, films first.

    Args:
        files: published files.
        signers: public keys that the reader trusts.

    Raises:
        BadInput: for the first that does not agree with its receipt; it says why.
    """
    found = [read_checked(path, signers=signers) for path in files]
    return sorted(found, key=lambda one: not one.is_film)


def write_file_sections(found: Sequence[CheckedFile], original: Path | None) -> list[Section]:
    """A section for each way in which files were released.

    Args:
        found: what was published.
        original: what one of them was before; then it is the only one.
    """
    ways: dict[str, list[CheckedFile]] = {}
    for one in found:
        ways.setdefault(_describe_release_way(one), []).append(one)
    made: list[Section] = []
    for files in ways.values():
        is_still = sum(len(section.body) for section in made) > _MAX_PAGE_BYTES
        made.append(_make_file_section(files, original, is_still=is_still))
    return made


def _describe_release_way(one: CheckedFile) -> str:
    """Files that share it are promised the same, in the same words."""
    said = json.loads(one.receipt.to_json())
    same = [said[key] for key in ("mechanism", "fields", "guarantee", "is_rehearsal")]
    doubts = [one.signer_sha256, one.appearance_doubt]
    return json.dumps([one.is_film, *doubts, *same, one.receipt.kept_sound], sort_keys=True)


def _make_file_section(
    files: list[CheckedFile], original: Path | None, *, is_still: bool
) -> Section:
    first, *others = files
    title = (
        f"{format_count(len(files), 'file')}, all released in one way"
        if others
        else first.printable_name
    )
    unit = (
        media.draw_unit_on_frame(first.receipt.guarantee.unit, first.path) if first.is_film else ""
    )
    section = release_sections.write_release_section(
        title,
        first.receipt,
        pictures=_draw_file_pictures(files, original, is_still=is_still),
        unit=unit,
        is_film=first.is_film,
        cautions=release_sections.list_cautions(
            first.receipt,
            is_film=first.is_film,
            is_signed=first.signer_sha256 is not None,
            doubt=first.appearance_doubt,
        ),
    )
    names = tuple(one.printable_name for one in files)
    return replace(section, has_originals=original is not None, names=names)


def _draw_file_pictures(files: list[CheckedFile], original: Path | None, *, is_still: bool) -> str:
    first = files[0]
    if first.receipt.mechanism and first.path.suffix == ".safetensors":
        return page.format_paragraphs([f"A model that was trained by {first.receipt.mechanism}."])
    if not first.is_film:
        return _draw_file_curves(first, original) + _list_file_names(files)
    if original is not None:
        if not video.is_video(original):
            raise BadInput(f"Expected a film or a picture as --original, got {original.name}.")
        return media.draw_side_by_side([("Before (private)", original), ("Published", first.path)])
    several = len(files) > 1
    pairs = [
        (one.printable_name if several else "Published", one.path) for one in files[:_MAX_PICTURES]
    ]
    return media.draw_side_by_side(pairs, is_still=is_still) + _list_file_names(files)


def _list_file_names(files: list[CheckedFile]) -> str:
    """Which files they are, where there are several."""
    if len(files) == 1:
        return ""
    said = [one.printable_name for one in files[:_MAX_NAMES]]
    if len(files) > len(said):
        said.append(f"and {format_count(len(files) - len(said), 'file')} more")
    return page.fold_body("Which files", page.format_listing(said))


def _draw_file_curves(one: CheckedFile, original: Path | None) -> str:
    """The first column of numbers that vary over time; nothing for anything else."""
    shapes = one.receipt.shapes
    drawn = {"published": _read_first_column(one.path, shapes)}
    if original is not None:
        drawn = {"before": _read_first_column(original, shapes), **drawn}
    if any(column is None for column in drawn.values()):
        return page.format_paragraphs(["Numbers that are not drawn here."])
    told = {name: column for name, column in drawn.items() if column is not None}
    columns = shapes[0][1] if len(shapes[0]) == 2 else 1
    caption = "The numbers in order." if columns == 1 else f"The first of {columns} columns."
    return page.caption_picture(plots.draw_series(told), caption)


def _read_first_column(path: Path, shapes: Shapes) -> np.ndarray | None:
    """The first column of the file's first array, if it is a table or a list of numbers."""
    for heading in (False, True):
        try:
            found = probe_recording(path, heading=heading)
        except BadInput:
            if heading or path.suffix.lower() != ".csv":
                raise
            continue
        if isinstance(found, ArrayRecording) and (found.shapes == shapes or heading):
            break
        if path.suffix.lower() != ".csv":
            break
    if not isinstance(found, ArrayRecording):
        raise BadInput(f"Expected numbers as --original, got {path.name}.")
    array = np.asarray(found.table.arrays[0], dtype=np.float64)
    if array.ndim > 2 or array.ndim == 0 or len(array) < 2:
        return None
    column = array if array.ndim == 1 else array[:, 0]
    return column if np.isfinite(column).sum() > 1 else None


_MAX_FRONTIERS = 3  # plots, where there are more mechanisms
_OMISSION_NOTE = "What is private (originals, attacks, the ledger) was left out of this page."


@dataclass(frozen=True, kw_only=True)
class ReportContext:
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
    beside: ReportContext | None = None,
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
    _write_page(
        files, Path(target), beside=beside or ReportContext(), public=public, signers=signers
    )
    return Path(target)


def _write_page(
    files: Sequence[Path | str],
    target: Path,
    *,
    beside: ReportContext,
    public: bool,
    signers: Sequence[Path | str],
) -> list[str]:
    """Check the receipts and write the page; how it is stamped."""
    _check_target(target, [Path(each) for each in files])
    found = list_published_files(files)
    if not found:
        raise ValueError("Expected at least one published file.")
    used = ReportContext(audits=beside.audits, plays=beside.plays) if public else beside
    if used.original is not None and len(found) != 1:
        raise ValueError(
            f"Expected one published file beside --original, got {len(found)}; a page for each."
        )
    checked = check_files(found, signers=signers)
    sections = write_file_sections(checked, used.original)
    sections += map(make_attack_section, used.attacks)
    sections += _make_frontier_sections(checked)
    if used.ledger is not None:
        sections.append(make_budget_section(used.ledger))
    audits = _collect_audits(checked, beside)  # of made-up data, so public
    sections += [write_audit_sections(audits)] if audits else []
    named = [(one.printable_name, one.receipt) for one in checked]
    sections.append(
        release_sections.make_receipts_section(named, texts=[one.text for one in checked])
    )
    lead = _format_lead(checked, is_public=public, is_private=used.is_private)
    text = page.render_page("What was published", sections, lead=lead)
    kind, stamps = page.choose_stamp(sections)
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


def _make_frontier_sections(checked: Sequence[CheckedFile]) -> list[page.Section]:
    """One for the first file of each mechanism."""
    first = {one.receipt.mechanism: one for one in reversed(checked)}
    found = [
        make_frontier_section(one.receipt, name=one.printable_name if len(checked) > 1 else "")
        for one in reversed(first.values())
    ]
    return [section for section in found if section is not None][:_MAX_FRONTIERS]


def _collect_audits(checked: Sequence[CheckedFile], beside: ReportContext) -> list[Audited]:
    """What was given, and what is played now: the first file of each mechanism."""
    found = [read_audit(path) for path in beside.audits]
    if beside.plays:
        first = {one.receipt.mechanism: one.receipt for one in reversed(checked)}
        games = map(play_audit, reversed(first.values()))
        found += [game for game in games if game is not None]
    return found


def _format_lead(found: Sequence[CheckedFile], *, is_public: bool, is_private: bool) -> str:
    """Whose word the receipts are and, where no stamp says so, what the files have against them."""
    first, *others = found
    said = f"{first.printable_name} is {first.signature_status}."
    if others:
        signed = sum(one.signer_sha256 is not None for one in found)
        said = (
            f"All {len(found)} files are consistent with their receipts. Keys that were named have "
            f"signed {signed} of these; anyone could have written the others."
        )
    doubts = [
        f" {one.printable_name}: {one.appearance_doubt}"
        for one in found
        if one.appearance_doubt and is_private
    ]
    return said + "".join(doubts) + f" {_OMISSION_NOTE}" * is_public
