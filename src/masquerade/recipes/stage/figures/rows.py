"""What we ask of Stage: neither too easy nor too hard, and people who can be told apart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure: in words, what is asked of it, and the number it is about."""

    said: str
    asked: str
    key: str = "top_1"
    least: float = 0.0
    most: float = 1.0


FIGURES = {
    "video": Figure(said="activity from a video, unseen people", asked=">= 0.85", least=0.85),
    "frame": Figure(said="activity from a single frame, unseen people", asked="<= 0.60", most=0.60),
    "background": Figure(
        said="activity from the empty place, correlation 0",
        asked="chance, 0.08 (at most 0.13)",
        most=0.13,
    ),
    "background_correlated": Figure(
        said="activity from the empty place, correlation 0.9", asked=">= 0.60", least=0.60
    ),
    "signals": Figure(
        said="activity from the wrist's sensors, unseen people", asked=">= 0.90", least=0.90
    ),
    "pose": Figure(
        said="joints from a photo, PCKh@0.5, unseen people",
        asked=">= 85",
        key="pckh",
        least=85.0,
        most=100.0,
    ),
    "subject": Figure(
        said="who it is, rank-1 among unseen people", asked=">= 0.80", key="rank_1", least=0.80
    ),
    "attributes": Figure(
        said="skin tone, gender, face, build, clothing: cMAP, unseen people",
        asked=">= 0.80",
        key="cmap",
        least=0.80,
    ),
    "place": Figure(
        said="place among 48 from another side, EfficientNet-Lite0",
        asked="> 0.60, and 0.15 above the thumbnail",
        key="efficientnet_lite0",
        least=0.60,
    ),
}


def keeps(name: str, values: dict[str, float]) -> bool:
    """Whether a figure is where it should be."""
    figure = FIGURES[name]
    is_above = name != "place" or values[figure.key] >= values["thumbnail"] + 0.15
    return figure.least <= values[figure.key] <= figure.most and is_above
