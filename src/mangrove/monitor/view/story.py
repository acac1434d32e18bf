"""The event log as cause and effect: what a thing on a page has to do with which event."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from mangrove.model.events.happening import Tone
from mangrove.model.site_pair import link_name
from mangrove.monitor.told_event import ToldEvent
from mangrove.monitor.view.wording import name_key, sentence

MAX_EVENTS = 200
NOTABLE = "notable"
"""What is asked for instead of one thing: all that is good or bad."""
TOGETHER_S = 5.0


class StoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """An event, indented under what caused it."""

    id: str
    at: float
    where: str
    kind: str
    tone: str
    words: str
    cause: str = ""
    depth: int = 0
    effects: int = 0
    chosen: bool = False


class StoryView(msgspec.Struct, frozen=True, kw_only=True):
    """Lines, and what they are about."""

    about: str
    lines: tuple[StoryLine, ...]
    left_out: int = 0
    problem: str = ""


def subjects_of(event: ToldEvent) -> frozenset[str]:
    """What the event is about, as pages name it: `site:a`, `link:a--b`, `topic:t`, `broker:b`."""
    happening = event.happening
    here = event.domain
    found = {f"site:{here}"}
    peer = getattr(happening, "peer", "")
    if peer and event.by_agent:
        found.add(f"site:{peer}")
    elif peer:
        found.add(f"link:{link_name(here, peer)}")
    for pair in (*getattr(happening, "failed", ()), *getattr(happening, "recovered", ())):
        if isinstance(pair, tuple) and len(pair) == 2:
            found.add(f"link:{link_name(*pair)}")
    topic = getattr(happening, "topic", "")
    if topic:
        found.add(f"topic:{name_key(topic)}")
    broker = getattr(happening, "broker", "")
    if broker:
        found.add(f"broker:{broker}")
    return frozenset(found)


def explaining(events: Sequence[ToldEvent], about: str) -> tuple[ToldEvent, ...]:
    """The events that explain how a thing is: the last that is not neutral, or the last at all.

    What both ends of a link, or several gateways, noted of one thing at about the same time belongs together.
    """
    concerned = [event for event in events if about in subjects_of(event)]
    telling = [event for event in concerned if event.happening.tone is not Tone.NEUTRAL] or concerned
    if not telling:
        return ()
    last = telling[-1]
    return tuple(each for each in telling if each.kind == last.kind and last.at - each.at <= TOGETHER_S)


def story(events: Sequence[ToldEvent], about: str = "", chosen: Collection[str] = ()) -> StoryView:
    """Lines of these events in order of time, each under its cause; the latest if there are many."""
    shown = list(events[-MAX_EVENTS:])
    depths: dict[str, int] = {}
    effects: dict[str, int] = {}
    for event in shown:
        cause = event.cause or ""
        depths[event.id] = depths[cause] + 1 if cause in depths else 0
        effects[cause] = effects.get(cause, 0) + 1
    lines = [
        StoryLine(
            id=event.id,
            at=event.at,
            where=event.domain,
            kind=event.kind,
            tone=event.happening.tone.value,
            words=sentence(event.happening.sentence()),
            cause=event.cause or "",
            depth=depths[event.id],
            effects=effects.get(event.id, 0),
            chosen=event.id in chosen,
        )
        for event in shown
    ]
    return StoryView(about=sentence(about, 120), lines=tuple(lines), left_out=len(events) - len(shown))


def notable(events: Sequence[ToldEvent]) -> list[ToldEvent]:
    """The latest that are good or bad: routine, of which there is most, is left out."""
    return [event for event in events if event.happening.tone is not Tone.NEUTRAL][-MAX_EVENTS:]


def marks(events: Iterable[ToldEvent], limit: int = 200) -> tuple[tuple[float, str, str], ...]:
    """Moments for the time slider: when, tone and id of events that are good or bad, the latest.

    What is bad has half of the room for itself, so that doubts, of which there are many, do not hide it.
    """
    telling = [event for event in events if event.happening.tone is not Tone.NEUTRAL]
    bad = {event.id for event in [each for each in telling if each.happening.tone is Tone.BAD][-limit // 2 :]}
    room = limit - len(bad)
    others = {event.id for event in [each for each in telling if each.id not in bad][-room:]}
    return tuple(
        (round(event.at, 3), event.happening.tone.value, event.id)
        for event in telling
        if event.id in bad or event.id in others
    )
