"""What an event is made of: the simple events inside it, and how often each is run."""

from __future__ import annotations

from collections.abc import Iterator

from masquerade import events
from masquerade.events import DpEvent
from masquerade.guarantee import Relation


class UnsupportedEvent(ValueError):
    """No accountant here can read the event under that relation."""


def parts_of(event: DpEvent) -> list[tuple[DpEvent, int]]:
    """The simple events, checked; sampling with probability one is no sampling."""
    events.check_event(event)
    return list(_flat(event, 1))


def distance_of(relation: Relation) -> float:
    """How far two neighbours may be apart, in units of the zero-out bound."""
    return 2.0 if relation is Relation.REPLACE_ONE else 1.0


def _flat(event: DpEvent, count: int) -> Iterator[tuple[DpEvent, int]]:
    if isinstance(event, events.SelfComposedDpEvent):
        yield from _flat(event.event, count * event.count)
    elif isinstance(event, events.ComposedDpEvent):
        for part in event.events:
            yield from _flat(part, count)
    elif (
        isinstance(event, events.PoissonSampledDpEvent | events.RevealedSampledDpEvent)
        and event.sampling_probability == 1
    ):
        yield from _flat(event.event, count)
    else:
        yield event, count
