"""Clients register, report, confirm and leave: what every department hears of it, in one place."""

from __future__ import annotations

import math
from collections.abc import Iterable

from mangrove.control.clients.placements import Served
from mangrove.control.clients.registry import UNKNOWN
from mangrove.control.instructions import (
    AnswerRegistration,
    Instruction,
    TellClient,
)
from mangrove.control.leading.departments import Departments
from mangrove.control.stimuli import (
    ClientRegistered,
)
from mangrove.model.agents.registration import (
    BrokerSuspected,
    ClientMessage,
    ClientRole,
    Leave,
    Migrated,
    RegisterAgain,
    Registration,
    Report,
)

LATE_S = 10.0
"""An order to a client may be on its way for so long."""


class ClientDesk:
    """Of one term."""

    def __init__(self, parts: Departments, term: int) -> None:
        self._parts = parts
        self._term = term
        self._unsure: dict[str, tuple[float, float]] = {}
        """Clients of which it is not known where they are served: since when, and when they are asked."""

    def register(self, registered: ClientRegistered, now: float) -> list[Instruction]:
        """Answer a registration."""
        registration = registered.registration
        self._is_sure(registration, now)
        outcome = self._parts.registrar.register(registration, now)
        told: list[Instruction] = [AnswerRegistration(registered.token, outcome.answer)]
        if outcome.answer.problem == UNKNOWN:
            told.append(TellClient(registration.client, RegisterAgain(term=self._term)))
        told += self._ended(outcome.ended, now)
        for served in (*outcome.placed, *outcome.relocated):
            told += self.located(served, now)
        for served in outcome.placed:
            if self._parts.registrar.is_new(served, now):
                self._parts.steering.placed(served, now)
        changed = (*outcome.placed, *outcome.ended)
        if not outcome.answer.problem:
            told += self._parts.congestion.registered(registration, changed, now)
        return told + self.audiences(changed, now)

    def client_said(self, message: ClientMessage, now: float) -> list[Instruction]:
        """A client has reported, confirmed or left."""
        problem = self._parts.clients.heard(message.client, message.sequence, now)
        if problem == UNKNOWN and not isinstance(message, Leave):
            return [TellClient(message.client, RegisterAgain(term=self._term))]
        if problem:
            return []
        match message:
            case Report():
                if not self._parts.profile.report(message):
                    self._parts.congestion.reported(message, now)
                return self._ask_again(message.client, now)
            case Migrated():
                told = self._migrated(message, now)
            case Leave():
                told = self.left(message.client, now)
            case BrokerSuspected():
                told = self._parts.failures.suspected(message, now)
        return told

    def _ask_again(self, client: str, now: float) -> list[Instruction]:
        """A client that did not say what became of an order tells it by registering."""
        asked_at = self._unsure.get(client, (0.0, math.inf))[1]
        return [TellClient(client, RegisterAgain(term=self._term))] if now >= asked_at else []

    def is_unsure(self, client: str, now: float) -> None:
        """A client has not said what became of an order."""
        if self._parts.clients.get(client) is not None:
            self._unsure[client] = (now, now)

    def _is_sure(self, registration: Registration, now: float) -> None:
        """A client says where it is served; that counts once no order to it can be on its way any more."""
        since = self._unsure.get(registration.client, (now, now))[0]
        if registration.complete and now >= since + LATE_S:
            self._unsure.pop(registration.client, None)
        elif registration.client in self._unsure:
            self._unsure[registration.client] = (since, since + LATE_S)

    def _migrated(self, message: Migrated, now: float) -> list[Instruction]:
        served = self._parts.clients.served(message.client, message.key)
        if served is None:
            return []
        there = self._parts.site.has(message.broker) and message.broker not in self._parts.site.dead
        if there or self._parts.site.of_neighbour(message.broker):
            self._parts.registrar.relocate(served, message.broker, now)
            self._profile_place(served)
        if message.problem:
            # The order may have been said twice, and the second time be carried out.
            self._unsure[message.client] = (now, now + LATE_S)
        told = self._parts.sessions.confirmed(message, now) + self._parts.plans.confirmed(message, now)
        told += self._parts.steering.confirmed(message, now)
        return told + self.audiences([served], now)

    def left(self, client: str, now: float) -> list[Instruction]:
        """A client is gone."""
        gone = self._parts.registrar.leave(client, now)
        self._unsure.pop(client, None)
        self._parts.profile.leave(client)
        self._parts.congestion.left(client, gone, now)
        told: list[Instruction] = []
        for served in gone:
            told += self._let_go(served, now)
        return told + self.audiences(gone, now)

    def _ended(self, ended: Iterable[Served], now: float) -> list[Instruction]:
        told: list[Instruction] = []
        for served in ended:
            self._parts.profile.end(*served.id)
            self._parts.profile.mirror(served.client, served.wish, "")
            told += self._let_go(served, now)
        return told

    def _let_go(self, served: Served, now: float) -> list[Instruction]:
        """Nobody moves a wish any more that is over."""
        return (
            self._parts.sessions.gone(served.id, now)
            + self._parts.plans.gone(served.id, now)
            + self._parts.steering.gone(served.id, now)
        )

    def located(self, served: Served, now: float) -> list[Instruction]:
        """A client is served, or served elsewhere than before."""
        self._profile_place(served)
        self._parts.steering.located(served)
        publishers = served.wish.role is ClientRole.PUBLISHER
        told = self._parts.sessions.joined(served.id, served.topic, served.broker, now, publishers=publishers)
        return told + self._parts.plans.joined(served, now)

    def _profile_place(self, served: Served) -> None:
        """What is served in another domain is reported here all the same, as load of a broker there."""
        self._parts.profile.place(served.client, served.wish, served.broker)
        record = self._parts.directory.get(served.topic)
        if record is not None and record.mode and served.wish.role is ClientRole.SUBSCRIBER:
            mirrored = not served.wish.queue and self._parts.site.has(served.broker)
            self._parts.profile.mirror(served.client, served.wish, record.mirror if mirrored else "")

    def mirrors_changed(self, topic: str) -> None:
        """Who subscribes to a topic without a group has it at its mirror as well."""
        record = self._parts.directory.get(topic)
        mirror = "" if record is None else record.mirror
        placements = self._parts.clients.placements
        for broker in placements.brokers(ClientRole.SUBSCRIBER, topic):
            for served in placements.members(ClientRole.SUBSCRIBER, topic, broker):
                if not served.wish.queue:
                    self._parts.profile.mirror(
                        served.client, served.wish, mirror if self._parts.site.has(broker) else ""
                    )

    def audiences(self, changed: Iterable[Served], now: float) -> list[Instruction]:
        """Tell neighbours what is published, and look where it should be."""
        published: dict[str, int] = {}
        for served in changed:
            if served.wish.role is ClientRole.PUBLISHER:
                count = self._parts.clients.placements.count(ClientRole.PUBLISHER, served.topic)
                published[served.topic] = count
            elif self._parts.places is not None:
                self._parts.places.subscribed(served.topic)
        if self._parts.places is not None:
            self._parts.places.published(published, now)
        return self._parts.advertising.set_publishers(published, now)
