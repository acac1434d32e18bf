"""What signed control messages cost: each kind by itself, a network at rest, a storm of subscriptions.

Real keys of a federation of five are made. Each kind of message is signed and judged again and again; the
engines of the five run for a minute of virtual time with nothing happening, and what they sign and judge is
counted; the same is computed for 200 sites. Then one domain subscribes to 100,000 subjects at once, with
keys and without in turn: measured is the processor time of its own gateway, of one that passes the changes
on, and of one that comes later and is told the whole table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time, time_ns

import msgspec
from rich.console import Console

from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.host.keys.making import make_keys
from mangrove.host.keys.ring import KeyRing
from mangrove.model.federation import Domain, Federation, Limits, Link
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction, SendFrame, ServeLink
from mangrove.overlay.protocol.control_messages import (
    ControlBody,
    DangerNotice,
    Digest,
    Heartbeat,
    HeartbeatKind,
    InterestUpdate,
    LinkReport,
    LinkStateAd,
    RouteSetup,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameType, Tag
from mangrove.overlay.protocol.signed import InterestStatement, Signed
from mangrove.overlay.protocol.signed_bodies import Signable, signed_frame, words
from mangrove.overlay.trust.frame_tags import content, proves_origin, tags_for
from mangrove.overlay.trust.trust import KeyTrust, Trust
from mangrove.simulation.forging.keys import SimulatedAuthority, SimulatedKeys
from mangrove.simulation.overlay_network import SimulatedOverlay

NAMES = ("amber", "birch", "cedar", "delta", "ember")
SUBJECTS, QUICK_SUBJECTS = 100_000, 20_000
ROUNDS = 3
FRAME_BYTES = (256, 8192)
REST_S = 60.0
MANY_SITES, MANY_ROUTES, MANY_HOPS = 200, 20, 5
REST_BAR = 0.05
STORM_BAR = 4.0


def run(seed: int, quick: bool) -> dict[str, object]:
    """Nothing is random here but the keys."""
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        made = make_keys(_federation(), Path(directory) / "keys")
        rings = {name: KeyRing.read(made.domain(name).path) for name in NAMES}
        trusts = {name: KeyTrust("signatures", ring, ring, time_ns) for name, ring in rings.items()}
        kinds = _kinds(trusts, 100 if quick else 1000)
        count = QUICK_SUBJECTS if quick else SUBJECTS
        storms: dict[str, list[dict[str, float]]] = {"without keys": [], "with keys": []}
        for _ in range(1 if quick else ROUNDS):
            storms["without keys"].append(_storm({}, count))
            storms["with keys"].append(_storm(trusts, count))
    return {
        "kinds": kinds,
        "rest": _rest(kinds, seed),
        "subjects": count,
        "storms": {
            name: {key: min(each[key] for each in rows) for key in rows[0]} for name, rows in storms.items()
        },
    }


def _federation() -> Federation:
    return Federation(
        name="signatures",
        domains={name: Domain(name=name, base_port=20_000 + 100 * place) for place, name in enumerate(NAMES)},
        links=tuple(
            Link(between=(first, second), delay_ms=5)
            for first, second in zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True)
        ),
        topics=TopicRules((Contract(match="alert.>", paths=2),)),
        limits=Limits(subjects=2 * SUBJECTS),
    )


# -- each kind by itself ----------------------------------------------------------------------------------


def _kinds(trusts: dict[str, KeyTrust], rounds: int) -> dict[str, dict[str, float]]:
    link = LinkReport(up=True, delay_ms=5.0, jitter_ms=0.5, waits_ms={0: 1.5}, cause="amber-17")
    applied = {name: (time_ns(), 17) for name in NAMES}
    origin, epoch = NAMES[0], time_ns()
    messages: dict[str, tuple[FrameType, Signable, ControlBody]] = {}
    ad = LinkStateAd(
        origin=origin, epoch=epoch, sequence=9, links={NAMES[1]: link, NAMES[4]: link}, applied=applied
    )
    notice = DangerNotice(
        name="storm", version=epoch, told_at=origin, centre=(29.9, -90.1), radius_km=250.0, left_s=3600.0
    )
    setup = RouteSetup(
        origin=origin, epoch=epoch, label=3, path=list(NAMES[:3]), version=5, topic_class=0, deadline_ms=150.0
    )
    statement = InterestStatement(origin=origin, epoch=epoch, version=3, change=bytes(16), table=bytes(16))
    change = InterestUpdate(origin=origin, epoch=epoch, version=3, snapshot=False, added=["alert.new"])
    messages["link state"] = (FrameType.LINK_STATE, ad, ad)
    messages["region"] = (FrameType.LINK_STATE, notice, notice)
    messages["route set-up"] = (FrameType.ROUTE, setup, setup)
    messages["change of interest"] = (FrameType.INTEREST, statement, change)
    found = {}
    for name, (frame_type, said, plain) in messages.items():
        signed = trusts[origin].signed(words(said))
        plain_bytes = len(control_frame(plain).encode())
        if isinstance(plain, InterestUpdate):
            whole = control_frame(msgspec.structs.replace(plain, statement=signed))
        else:
            whole = signed_frame(frame_type, signed)
        judged = trusts[NAMES[1]]
        assert not judged.judge(origin, signed).problem
        found[name] = {
            "sign_us": 1e6 * _mean(partial(_sign, trusts[origin], said), rounds),
            "judge_us": 1e6 * _mean(partial(judged.judge, origin, signed), rounds),
            "plain_bytes": plain_bytes,
            "signed_bytes": len(whole.encode()),
        }
    for size_bytes in FRAME_BYTES:
        found[f"data frame, {size_bytes:,} bytes"] = _tagged_frame(trusts, size_bytes, rounds)
    return found


def _tagged_frame(trusts: dict[str, KeyTrust], size_bytes: int, rounds: int) -> dict[str, float]:
    """What it costs to prove to one destination who sent a frame, and to check that."""
    origin, destination = trusts[NAMES[0]], trusts[NAMES[1]]
    credentials = {name: trusts[name].signed(b"").credential for name in NAMES[:2]}
    frame = Frame(FrameType.DATA, bytes(size_bytes), hop_limit=8, epoch=time_ns(), destinations=2, sequence=7)
    shown_to = {1: credentials[NAMES[1]]}

    def tag() -> tuple[Tag, ...]:
        return tags_for(frame, content(frame), shown_to, origin)

    sent = msgspec.structs.replace(frame, tags=tag())
    check = partial(proves_origin, sent, 1, (credentials[NAMES[0]],), destination)
    assert check()
    return {
        "sign_us": 1e6 * _mean(tag, 10 * rounds),
        "judge_us": 1e6 * _mean(check, 10 * rounds),
        "plain_bytes": len(frame.encode()),
        "signed_bytes": len(sent.encode()),
    }


def _sign(trust: KeyTrust, said: Signable) -> Signed:
    return trust.signed(words(said))


def _mean(action: Callable[[], object], rounds: int) -> float:
    begun = process_time()
    for _ in range(rounds):
        action()
    return (process_time() - begun) / rounds


# -- at rest ----------------------------------------------------------------------------------------------


def _rest(kinds: dict[str, dict[str, float]], seed: int) -> dict[str, float]:
    """How often a gateway of five signs and judges while nothing happens, and what share of a core it is."""
    federation = _federation()
    authority = _CountingAuthority(list(NAMES), seed)
    net = SimulatedOverlay(federation, seed, authority=authority)
    for name in NAMES:
        net.subscribe(name, f"alert.{name}", "common")
    net.run(30.0)
    authority.judged = authority.signed = 0
    net.run(30.0 + REST_S)
    signs_s = authority.signed / REST_S / len(NAMES)
    judges_s = authority.judged / REST_S / len(NAMES)
    sign_s, judge_s = (kinds["link state"][what] / 1e6 for what in ("sign_us", "judge_us"))
    ads_s, refreshes_s = 1 / 5.0, 1 / 10.0
    many_signs_s = ads_s + MANY_ROUTES * refreshes_s
    many_judges_s = (MANY_SITES - 1) * ads_s + MANY_ROUTES * refreshes_s * MANY_HOPS
    return {
        "signs_s": signs_s,
        "judges_s": judges_s,
        "share": signs_s * sign_s + judges_s * judge_s,
        "many_signs_s": many_signs_s,
        "many_judges_s": many_judges_s,
        "many_share": many_signs_s * sign_s + many_judges_s * judge_s,
    }


class _CountingKeys(SimulatedKeys):
    def __init__(self, domain: str, authority: _CountingAuthority) -> None:
        super().__init__(domain, authority)
        self._counting = authority

    def sign(self, statement: bytes) -> bytes:
        self._counting.signed += 1
        return super().sign(statement)


class _CountingAuthority(SimulatedAuthority):
    def __init__(self, domains: list[str], seed: int) -> None:
        super().__init__(domains, seed)
        self.signed = self.judged = 0
        self.keys = {name: _CountingKeys(name, self) for name in domains}

    def verify(self, origin: str, statement: bytes, signed: bytes, credential: bytes) -> str:
        self.judged += 1
        return super().verify(origin, statement, signed, credential)


# -- a storm ----------------------------------------------------------------------------------------------


def _storm(trusts: dict[str, KeyTrust], count: int) -> dict[str, float]:
    """The author's changes go to a neighbour, and from there, as one table, to a third that comes later."""
    author_name, middle_name, late_name = NAMES[:3]
    author = _Timed(author_name, trusts.get(author_name))
    middle = _Timed(middle_name, trusts.get(middle_name))
    late = _Timed(late_name, trusts.get(late_name))
    author.meet(middle)
    middle.meet(author)
    _exchange(author, middle)
    for each in (author, middle):
        each.cpu_s = each.longest_s = 0.0
    for number in range(count):
        author.engine.change_local_interest(f"storm.subject.{number:06d}", "", True)
    author.do(lambda: author.engine.flush(author.now))
    _exchange(author, middle)
    assert len(middle.engine.wanted_elsewhere()) == count
    changes_s, longest_s = middle.cpu_s, middle.longest_s
    middle.meet(late)
    late.meet(middle)
    late.cpu_s = late.longest_s = 0.0
    _exchange(middle, late)
    assert len(late.engine.wanted_elsewhere()) == count
    return {
        "author_s": author.cpu_s,
        "author_longest_ms": 1000 * author.longest_s,
        "middle_s": changes_s,
        "middle_longest_ms": 1000 * longest_s,
        "late_s": late.cpu_s,
        "late_longest_ms": 1000 * late.longest_s,
    }


class _Timed:
    """An engine whose calls are timed, and what it has to say."""

    def __init__(self, name: str, trust: Trust | None) -> None:
        self.name = name
        self.engine = OverlayEngine(_federation(), name, time_ns(), trust=trust)
        self.now = 1.0
        self.cpu_s = self.longest_s = 0.0
        self.out: dict[str, list[Frame]] = {}

    def do(self, action: Callable[[], list[Instruction]]) -> None:
        begun = process_time()
        instructions = action()
        for instruction in instructions:
            if isinstance(instruction, SendFrame):
                self.out.setdefault(instruction.peer, []).append(instruction.frame)
            elif isinstance(instruction, ServeLink):
                while (frame := self.engine.pull(instruction.peer, self.now)) is not None:
                    self.out.setdefault(instruction.peer, []).append(frame)
        spent = process_time() - begun
        self.cpu_s += spent
        self.longest_s = max(self.longest_s, spent)

    def meet(self, other: _Timed) -> None:
        self.do(lambda: self.engine.peer_up(other.name, self.now))
        passed = Heartbeat(kind=HeartbeatKind.TEST_ACK, sequence=1, sent=0.0, received=0)
        self.do(lambda: self.engine.receive(other.name, control_frame(passed), self.now))
        self.do(lambda: self.engine.receive(other.name, control_frame(Digest(known={})), self.now))


def _exchange(first: _Timed, second: _Timed) -> None:
    """Carry everything to and fro until neither has anything more to say or to do."""
    idle = 0
    while idle < 3:
        moved = False
        for sender, receiver in ((first, second), (second, first)):
            frames = sender.out.pop(receiver.name, [])
            for frame in frames:
                if frame.type is not FrameType.HEARTBEAT:
                    moved = True
                    receiver.do(partial(receiver.engine.receive, sender.name, frame, receiver.now))
        for each, other in ((first, second), (second, first)):
            each.now += 0.002
            each.engine.heard(other.name, each.now)
            moved |= each.engine.timer() <= 0.0
            each.do(partial(each.engine.handle_timer, each.now))
        idle = 0 if moved else idle + 1


# -- report -----------------------------------------------------------------------------------------------


def missed(result: dict[str, object]) -> list[str]:
    """A network at rest hardly pays, and a storm costs no more than a few times what it did."""
    rest = msgspec.convert(result["rest"], dict[str, float])
    storms = msgspec.convert(result["storms"], dict[str, dict[str, float]])
    found = []
    if rest["many_share"] > REST_BAR:
        found.append(f"{MANY_SITES} sites at rest take {100 * rest['many_share']:.1f} % of a core")
    for who in ("author", "middle", "late"):
        ratio = storms["with keys"][f"{who}_s"] / max(storms["without keys"][f"{who}_s"], 1e-9)
        if ratio > STORM_BAR:
            found.append(f"a storm costs the {who} {ratio:.2f} times as much with keys")
    return found


def render(result: dict[str, object], console: Console) -> None:
    """Three tables."""
    kinds = msgspec.convert(result["kinds"], dict[str, dict[str, float]])
    table = Table(
        "Signed control messages, and data frames with a tag",
        name_column("message"),
        *map(number_column, ("sign", "judge", "bytes", "with proof")),
    )
    for name, kind in kinds.items():
        table.add(
            name,
            f"{kind['sign_us']:.1f} µs",
            f"{kind['judge_us']:.1f} µs",
            f"{kind['plain_bytes']:,.0f}",
            f"{kind['signed_bytes']:,.0f}",
        )
    table.show(console)
    rest = msgspec.convert(result["rest"], dict[str, float])
    table = Table(
        "A gateway at rest", name_column("sites"), *map(number_column, ("signs/s", "judges/s", "of a core"))
    )
    table.add(
        f"{len(NAMES)}", f"{rest['signs_s']:.2f}", f"{rest['judges_s']:.2f}", f"{100 * rest['share']:.3f} %"
    )
    table.add(
        f"{MANY_SITES}, computed",
        f"{rest['many_signs_s']:.2f}",
        f"{rest['many_judges_s']:.2f}",
        f"{100 * rest['many_share']:.3f} %",
    )
    table.show(console)
    storms = msgspec.convert(result["storms"], dict[str, dict[str, float]])
    table = Table(
        f"{result['subjects']:,} subscriptions at once: processor time, and the longest step",
        name_column("gateway"),
        *map(number_column, ("author", "longest", "passes on", "longest", "comes late", "longest")),
    )
    for name, row in storms.items():
        table.add(
            name,
            *(
                text
                for who in ("author", "middle", "late")
                for text in (f"{row[f'{who}_s']:.2f} s", f"{row[f'{who}_longest_ms']:.0f} ms")
            ),
        )
    table.show(console)
    console.print(
        f"{MANY_SITES} sites: each advertises every 5 s and keeps {MANY_ROUTES} routes of {MANY_HOPS} hops; "
        f"bars: {100 * REST_BAR:.0f} % of a core, a storm at most {STORM_BAR:g} times"
    )
