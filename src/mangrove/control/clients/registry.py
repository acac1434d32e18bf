"""Clients of a domain: their wishes, and the leases under which they hold them.

The shell has checked the signature or the seal of everything that arrives here. What is checked here is what
a client may ask for: a sequence number is good once, a lease ends when nothing is heard of the client, and
what cannot be a subscription is refused with its reason and harms no other wish.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from mangrove.control.clients.leases import LeaseWheel
from mangrove.control.clients.placements import Placements, Served
from mangrove.model.agents.registration import LEASE_S, MAX_WISHES, REPORT_S, ClientRole, Registration, Wish
from mangrove.model.subjects import group_problem, is_internal, subject_problem

MAX_CLIENTS = 200_000
MAX_ALL_WISHES = 1_000_000
MAX_KEY_CHARACTERS = 256
MAX_REMEMBERED = 100_000
"""Clients that left, whose last sequence number is kept so that nothing of theirs can be said again."""
MAX_EXPIRED_AT_ONCE = 1000
"""A host with all its clients may be gone at once; an agent has other things to do meanwhile."""
LATELY_S = 3 * REPORT_S
MAX_DEADLINE_MS = 1e9
MAX_WEIGHT = 1e6
MAX_RTT_MS = 60_000.0

STALE = "stale or repeated"
UNKNOWN = "unknown client"


class Client(msgspec.Struct):
    """One client process."""

    id: str
    name: str
    sequence: int
    rtt_ms: dict[str, float]
    wishes: dict[str, Served] = msgspec.field(default_factory=dict)


class Upsert(msgspec.Struct, frozen=True):
    """What a registration changed."""

    client: Client | None
    """None if all of it is refused."""
    problem: str = ""
    added: tuple[Served, ...] = ()
    """New, or for another topic than before; not placed yet, and not in the index."""
    kept: tuple[Served, ...] = ()
    """Asked for again."""
    ended: tuple[Served, ...] = ()
    refused: dict[str, str] = msgspec.field(default_factory=dict)


class Clients:
    """All clients under a lease. `refused` counts what was not taken, by reason."""

    def __init__(self, brokers: Iterable[str]) -> None:
        self.placements = Placements()
        self.refused: Counter[str] = Counter()
        self._brokers = frozenset(brokers)
        self._clients: dict[str, Client] = {}
        self._leases = LeaseWheel(LEASE_S)
        self._left: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def get(self, client: str) -> Client | None:
        """A client by its id."""
        return self._clients.get(client)

    def served(self, client: str, key: str) -> Served | None:
        """One wish of a client."""
        known = self._clients.get(client)
        return None if known is None else known.wishes.get(key)

    def wishes(self) -> Iterator[Served]:
        """Every wish of every client."""
        return (served for client in self._clients.values() for served in client.wishes.values())

    # -- registrations --------------------------------------------------------------------------------------

    def register(self, registration: Registration, now: float) -> Upsert:
        """Take a registration in. The caller places what was added, and calls `place` for it."""
        client = self._clients.get(registration.client)
        if problem := self._registration_problem(registration, client):
            self.refused[problem] += 1
            return Upsert(None, problem)
        if client is None:
            client = Client(registration.client, registration.name, registration.sequence, {})
            self._clients[client.id] = client
            self._left.pop(client.id, None)
        client.sequence = registration.sequence
        client.name = registration.name or client.name
        client.rtt_ms |= self._rtts(registration.rtt_ms)
        self._leases.renew(client.id, now)
        return self._take_wishes(client, registration)

    def place(self, served: Served, broker: str) -> None:
        """Say where a wish is served; a new one is in the index from then on."""
        client = self._clients[served.client]
        if client.wishes.get(served.wish.key) is served:
            self.placements.move(served, broker)
            return
        served.broker = broker
        client.wishes[served.wish.key] = served
        self.placements.add(served)

    def _registration_problem(self, registration: Registration, client: Client | None) -> str:
        last = self._left.get(registration.client, -1) if client is None else client.sequence
        if registration.sequence <= last:
            return STALE
        if client is None and not registration.complete:
            return UNKNOWN
        if client is None and len(self._clients) >= MAX_CLIENTS:
            return f"there are {MAX_CLIENTS} clients already"
        return ""

    def _rtts(self, rtt_ms: dict[str, float]) -> dict[str, float]:
        good = {
            broker: rtt
            for broker, rtt in rtt_ms.items()
            if broker in self._brokers and math.isfinite(rtt) and 0.0 <= rtt <= MAX_RTT_MS
        }
        if len(good) < len(rtt_ms):
            self.refused["round trips that cannot be"] += len(rtt_ms) - len(good)
        return good

    def _take_wishes(self, client: Client, registration: Registration) -> Upsert:
        refused: dict[str, str] = {}
        wanted: dict[str, Wish] = {}
        for wish in registration.wishes:
            if wish.key in wanted:
                self._refuse(refused, wish.key, "two wishes have this key")
            elif problem := wish_problem(wish):
                self._refuse(refused, wish.key[:MAX_KEY_CHARACTERS], problem)
            else:
                wanted[wish.key] = wish
        given_up = set(registration.ended) - wanted.keys()
        if registration.complete:
            given_up |= client.wishes.keys() - wanted.keys()
        ended = [served for key in given_up if (served := client.wishes.get(key)) is not None]
        added: list[Served] = []
        kept: list[Served] = []
        for key, wish in wanted.items():
            before = client.wishes.get(key)
            if before is not None and _same(before.wish, wish):
                before.wish = wish
                kept.append(before)
                continue
            if before is not None:
                ended.append(before)
            added.append(Served(client.id, wish, ""))
        for served in ended:
            self._end(client, served)
        room = min(MAX_WISHES - len(client.wishes), MAX_ALL_WISHES - sum(self.placements.counts.values()))
        for served in added[max(0, room) :]:
            self._refuse(refused, served.wish.key, "too many wishes")
        return Upsert(
            client,
            added=tuple(added[: max(0, room)]),
            kept=tuple(kept),
            ended=tuple(ended),
            refused=refused,
        )

    def _refuse(self, refused: dict[str, str], key: str, problem: str) -> None:
        refused[key] = problem
        self.refused[problem] += 1

    def _end(self, client: Client, served: Served) -> None:
        del client.wishes[served.wish.key]
        self.placements.remove(served)

    # -- leases ---------------------------------------------------------------------------------------------

    def heard(self, client: str, sequence: int, now: float) -> str:
        """A client has said something: its lease is renewed, or this is why what it said does not count."""
        known = self._clients.get(client)
        problem = UNKNOWN if known is None else STALE if sequence <= known.sequence else ""
        if problem or known is None:
            self.refused[problem] += 1
            return problem
        known.sequence = sequence
        self._leases.renew(client, now)
        return ""

    def heard_lately(self, client: str, now: float) -> bool:
        """Whether a client has said something in the last few reports' time; one that died has not."""
        return now - self._leases.renewed_at(client) <= LATELY_S

    def leave(self, client: str) -> list[Served]:
        """A client goes; its wishes, for whoever kept count of them."""
        known = self._clients.pop(client, None)
        if known is None:
            return []
        self._leases.end(client)
        self._left[client] = known.sequence
        self._left.move_to_end(client)
        while len(self._left) > MAX_REMEMBERED:
            self._left.popitem(last=False)
        gone = list(known.wishes.values())
        for served in gone:
            self._end(known, served)
        return gone

    def expired(self, now: float) -> list[str]:
        """Some clients whose lease has run out; each is told once, and still to be made to leave."""
        return self._leases.expired(now, MAX_EXPIRED_AT_ONCE)

    def timer(self) -> float:
        """When a lease may run out; infinite without clients."""
        return self._leases.timer()

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        found = self.placements.problems()
        if len(self._leases) != len(self._clients):
            found.append(f"{len(self._clients)} clients have {len(self._leases)} leases")
        indexed = sum(self.placements.counts.values())
        held = sum(len(client.wishes) for client in self._clients.values())
        if indexed != held:
            found.append(f"{held} wishes are held, {indexed} are in the index")
        return found


def wish_problem(wish: Wish) -> str:
    """Why a wish cannot be managed, or an empty string if it can."""
    if not wish.key or len(wish.key) > MAX_KEY_CHARACTERS:
        return f"its key is empty or longer than {MAX_KEY_CHARACTERS} characters"
    if problem := subject_problem(wish.subject, wildcards=wish.role is ClientRole.SUBSCRIBER):
        return f"the subject is not valid: {problem}"
    if is_internal(wish.subject):
        return "the subject belongs to the machinery of the site"
    if wish.queue and (problem := group_problem(wish.queue)):
        return f"the queue group is not valid: {problem}"
    if wish.deadline_ms is not None and not 0.0 < wish.deadline_ms <= MAX_DEADLINE_MS:
        return "its deadline is no positive number of milliseconds"
    if not 0.0 <= wish.weight <= MAX_WEIGHT:
        return f"its weight is not between 0 and {MAX_WEIGHT:g}"
    return ""


def _same(before: Wish, after: Wish) -> bool:
    """Whether a wish is for the same thing as before, whatever else it says."""
    return before.role is after.role and before.subject == after.subject and before.queue == after.queue
