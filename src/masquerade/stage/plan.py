"""Who does what where: the plan of a world, from which every recording follows.

Everything is a function of the seed and of a recording's own number, so one recording can be made
without the others.

People who never lived: a body, a look and a way of moving, all from one number.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from masquerade import _check
from masquerade.stage import act, bodies, look
from masquerade.stage.bodies import BUILDS, BodyShape, sample_body_shape
from masquerade.stage.motion import REPERTOIRES, Repertoire
from masquerade.stage.skeleton import RATE_HZ

SKIN_TONES = ("light", "medium", "dark")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One person; ``is_feminine`` is the gender that body, hair and beard present."""

    name: str  # such as "s017"
    shape: BodyShape
    look: look.PersonAppearance
    style: act.MotionStyle
    is_feminine: bool

    @property
    def attributes(self) -> dict[str, str | int]:
        """What an onlooker could tell."""
        return {
            "skin_tone": SKIN_TONES[self.look.skin // 2],
            "gender": "feminine" if self.is_feminine else "masculine",
            "build": next(
                name for name, (low, high) in BUILDS.items() if low <= self.shape.weight <= high
            ),
            "hair": self.look.hair_style,
            "clothing": self.look.clothing,
            "handedness": "left" if self.style.is_left_handed else "right",
        }


@lru_cache(maxsize=1024)
def make_subject(number: int, *, seed: int) -> Subject:
    """Subject ``number`` of the world ``seed``; the others do not matter."""
    rng = np.random.default_rng((seed, 1, number))
    shape = sample_body_shape(rng)
    is_feminine = bodies.is_feminine(shape)
    worn = look.sample_appearance(is_feminine=is_feminine, age=shape.age, rng=rng)
    style = act.sample_motion_style(rng)
    name = f"s{number:03d}"
    return Subject(name=name, shape=shape, look=worn, style=style, is_feminine=is_feminine)


Split = Literal["public", "train", "test", "all"]
SPLITS = ("public", "train", "test")
VIEWS = 6  # of a place
_SPLIT_ENDS = (
    1 / 2,
    5 / 6,
    1.0,
)  # where each split ends: half is public, a third private, a sixth test
_TURNS = ("public", "train", "public", "train", "public", "test")  # people take turns
USUAL_ANGLE = 0.72  # of a place's own angle of view, so that a person fills half the height
_WORLD_VERSION = 5  # a change in what is made from the same plan makes everyone make it again


@dataclass(frozen=True, kw_only=True)
class WorldPlan:
    """The size of a world, in the words of `Stage`, whose documentation says what each means."""

    seed: int = 0
    subjects: int = 42
    places: int = 48
    correlation: float = 0.0
    bystanders: float = 0.1
    shares_subjects: bool = False
    videos: int = 648
    frames: int = 16
    height: int = 96
    width: int = 96
    rate_hz: float = 10.0
    photos: int = 648
    photo_px: int = 128
    wearers: int = 42
    signal_hz: float = 50.0
    repertoire: Repertoire = "daily"
    class_share: tuple[float, ...] | None = None
    angle_share: float = USUAL_ANGLE
    photo_roll_deg: float = 0.0

    def __post_init__(self) -> None:
        names = ("places", "videos", "frames", "height", "width", "photos", "photo_px")
        _check.count(**{name: getattr(self, name) for name in (*names, "subjects", "wearers")})
        _check.positive(rate_hz=self.rate_hz, signal_hz=self.signal_hz)
        if self.signal_hz > RATE_HZ:
            raise ValueError(
                f"Expected signal_hz up to {RATE_HZ:g}, got signal_hz={self.signal_hz:g}."
            )
        for name in ("correlation", "bystanders"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"Expected {name} from 0 to 1, got {name}={getattr(self, name)!r}."
                )
        for name in ("subjects", "wearers"):
            if getattr(self, name) < 6:
                raise ValueError(
                    f"Expected {name} >= 6, so that every split has people, "
                    f"got {name}={getattr(self, name)}."
                )
        if self.correlation > 0 and self.places < len(self.activities):
            raise ValueError(
                f"Expected at least {len(self.activities)} places, one for each activity, where "
                f"correlation > 0, got places={self.places}; add places or set correlation to 0."
            )
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"Expected seed to be a whole number >= 0, got seed={self.seed!r}.")
        if not 0 < self.angle_share <= 1:
            raise ValueError(
                "Expected angle_share above 0 and up to 1, the place's whole angle of view, "
                f"got angle_share={self.angle_share!r}."
            )
        if not 0 <= self.photo_roll_deg <= 180:
            raise ValueError(
                "Expected photo_roll_deg from 0 to 180, got "
                f"photo_roll_deg={self.photo_roll_deg!r}."
            )
        if self.class_share is not None:
            _check_shares(self.class_share, self.activities)

    @property
    def activities(self) -> tuple[str, ...]:
        """What is done in this world."""
        return REPERTOIRES[self.repertoire]

    def make_rng(self, *numbers: int) -> np.random.Generator:
        """What is random about one thing; nothing is the same in two repertoires but people."""
        own = (self.seed, *numbers)
        return np.random.default_rng(own if self.repertoire == "daily" else (*own, 1))

    def list_members(self, split: str, count: int) -> range:
        """The numbers of a split, of ``count`` recordings; all are public where people are."""
        return list_split_members("all" if self.repertoire == "public" else split, count)

    def list_people(self, split: str, count: int) -> list[int]:
        """The people of a split, of ``count`` in all; who is private has no public repertoire."""
        if self.repertoire == "daily":
            return list_split_people(split, count)
        return list_split_people("public", 2 * count)[:count]

    def compute_recording_size(self, kind: str) -> tuple[int, int, int]:
        """Frames, height and width of a video or a photo."""
        if kind == "videos":
            return self.frames, self.height, self.width
        return 1, self.photo_px, self.photo_px

    def compute_fingerprint(self, kind: str, fields: tuple[str, ...]) -> str:
        """A name for what these fields make."""
        known = {name: asdict(self)[name] for name in ("seed", *fields)}
        known |= {} if self.repertoire == "daily" else {"repertoire": self.repertoire}
        if self.class_share is not None and kind != "signals":
            known["class_share"] = self.class_share
        if self.angle_share != USUAL_ANGLE and kind == "videos":  # photos are framed anyway
            known["angle_share"] = self.angle_share
        if self.photo_roll_deg and kind == "photos":
            known["photo_roll_deg"] = self.photo_roll_deg
        text = json.dumps([_WORLD_VERSION, kind, known], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class TakePlan:
    """What one recording shows: who acts and who, if anybody, stands by; what, where and how."""

    number: int
    split: str
    subject: int
    bystander: int | None
    activity: str
    place: int
    view: int


def list_split_members(split: str, count: int) -> range:
    """The numbers of a split, of ``count`` in all; "all" has all.

    Example:
        >>> [list_split_members(part, 12) for part in ("public", "train", "test")]
        [range(0, 6), range(6, 10), range(10, 12)]
    """
    if split == "all":
        return range(count)
    place = SPLITS.index(split)
    begin = round(count * _SPLIT_ENDS[place - 1]) if place else 0
    return range(begin, round(count * _SPLIT_ENDS[place]))


def list_split_people(split: str, count: int) -> list[int]:
    """The people of a split, among the first ``count``; the same whether filmed or measured.

    Example:
        >>> [list_split_people(part, 7) for part in ("public", "train", "test")]
        [[0, 2, 4, 6], [1, 3], [5]]
    """
    return [number for number in range(count) if split in ("all", _TURNS[number % len(_TURNS)])]


def plan_take(world: WorldPlan, number: int, *, kind: str) -> TakePlan:
    """The plan of video or photo ``number``."""
    count = world.videos if kind == "videos" else world.photos
    rng = world.make_rng(2, ("videos", "photos").index(kind), number)
    split = next(name for name in SPLITS if number in world.list_members(name, count))
    group = world.list_people("all" if world.shares_subjects else split, world.subjects)
    rounds, act = _find_activity_turn(world, number, world.list_members(split, count))
    subject = group[(rounds + 5 * act) % len(group)]
    at_home = rng.random() < world.correlation
    place, stranger = int(rng.integers(world.places)), int(rng.integers(max(1, len(group) - 1)))
    if at_home:
        kinds = len(world.activities)
        place -= (place - act) % kinds  # the places of an activity, of twelve: every twelfth
        place += kinds if place < 0 else 0
    others = [number for number in group if number != subject]  # nobody in a split of one
    someone = others[stranger] if others else None
    return TakePlan(
        number=number,
        split=split,
        subject=subject,
        bystander=someone if rng.random() < world.bystanders and kind == "videos" else None,
        activity=world.activities[act],
        place=place,
        view=int(rng.integers(VIEWS)),
    )


def _find_activity_turn(world: WorldPlan, number: int, split: range) -> tuple[int, int]:
    """How often an activity was done before in this split, and which it is.

    They take turns, unless some have a larger share.
    """
    place = number - split.start
    if world.class_share is None:
        return divmod(place, len(world.activities))
    return _share_activities(world.class_share, len(split))[place]


@lru_cache(maxsize=16)
def _share_activities(shares: tuple[float, ...], count: int) -> list[tuple[int, int]]:
    """For each of ``count`` recordings, how often its activity came before, and its activity.

    Next is always who is furthest behind its share, so that any beginning has the shares too.
    """
    done, wanted = np.zeros(len(shares), int), np.array(shares)
    found = []
    for _ in range(count):
        due = np.full(len(shares), np.inf)
        due[wanted > 0] = (done[wanted > 0] + 0.5) / wanted[wanted > 0]
        act = int(np.argmin(due))
        found.append((int(done[act]), act))
        done[act] += 1
    return found


def _check_shares(shares: tuple[float, ...], activities: tuple[str, ...]) -> None:
    """Refuse what is not one share an activity."""
    if len(shares) != len(activities):
        raise ValueError(
            f"Expected {len(activities)} class_share, one for each of {', '.join(activities)}, "
            f"got {len(shares)}."
        )
    if not all(np.isfinite(share) and share >= 0 for share in shares) or not sum(shares) > 0:
        raise ValueError(
            "Expected class_share to be finite and >= 0, and one above 0 at least, "
            f"got class_share={shares}."
        )
