"""SPAct: a network redraws every frame so that frames of one video are hard to match."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.mechanisms.redrawn import Redrawn


@dataclass(frozen=True, kw_only=True)
class Spact(Redrawn):
    """Redraw every frame by a network that was taught to make frames of one video hard to match.

    The baseline of that name in [nken2025, Sec. 4.2], after [dave2022]: a U-Net was taught together
    with a network that reads the activity, which it helps, and one that tells without labels which
    two frames come from the same video, which it fights. It learned from people who never lived,
    by ``python tools/anonymise.py --task spact``; [nken2025] teaches it on each data set.

    Guarantee:
        none: the network was taught against others of its time and not against those that come
            after; on other people, places and cameras than it learned from it may hide less.
    """

    @property
    def hides(self) -> str:
        """What frames of a video have in common."""
        return "what the frames of a video have in common, such as people and places"
