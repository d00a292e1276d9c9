"""ALF: a network redraws every frame so that looks are hard to tell."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.mechanisms.redrawn import Redrawn


@dataclass(frozen=True, kw_only=True)
class Alf(Redrawn):
    """Redraw every frame by a network that was taught to make people's looks hard to tell.

    The baseline of that name in [nken2025, Sec. 4.2], after [wu2020]: a U-Net was taught together
    with a network that reads the activity, which it helps, and several that tell skin tone, gender,
    build, hair, clothing and whether a face is seen, which it fights. It learned from people who
    never lived, by ``python tools/anonymise.py --task alf``; [nken2025] teaches it on each data
    set.

    Guarantee:
        none: the network was taught against others of its time and not against those that come
            after; on other people, places and cameras than it learned from it may hide less.
    """

    @property
    def hides(self) -> str:
        """Looks."""
        return "skin tone, gender, build, hair, clothing and faces"
