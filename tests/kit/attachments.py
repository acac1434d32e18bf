"""A head broker in memory: the seam's other side, driven by a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

from msgspec.structs import replace
from tests.kit.engines import federation, learn, with_links

from mangrove.broker.attachment import Attachment, AttachmentOwner
from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.head.connection import HeadConnection
from mangrove.gateway.head.interest import Silence
from mangrove.gateway.head.inward.lines import LetterBox
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.mirroring.mirror_plane import MirrorPlane
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.access.rules import AccessRules
from mangrove.model.congestion.rate_limit import Limits as RateLimits
from mangrove.model.federation import Limits
from mangrove.model.topics import TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import ForgetRoutes, Instruction, SendFrame, ServeHead
from mangrove.overlay.protocol.bodies import Flow, Message
from mangrove.overlay.protocol.control_messages import InterestUpdate, control_body
from mangrove.overlay.protocol.frames import FrameType


class FakeAttachment:
    """Keeps what its owner says; tells its owner what a test wants it to hear."""

    def __init__(self, owner: AttachmentOwner) -> None:
        self.owner = owner
        self.subscribed: list[str] = []
        self.ended: list[str] = []
        """What is not subscribed to any more."""
        self.written: list[bytes] = []
        self.grouped: list[tuple[tuple[str, ...], bytes]] = []
        self.full_after: int | None = None

    async def run(self) -> None:
        self.owner.attached()

    def subscribe(self, subjects: Iterable[str]) -> None:
        self.subscribed += [subject for subject in subjects if subject not in self.subscribed]

    def unsubscribe(self, subjects: Iterable[str]) -> None:
        for subject in subjects:
            self.subscribed.remove(subject)
            self.ended.append(subject)

    def confirm(self, done: Callable[[], None]) -> None:
        done()

    def after_interest(self, done: Callable[[], None]) -> None:
        done()

    def outlet(self, line: bytes, message: Message, groups: tuple[str, ...]) -> Flow:
        return _Grouped(self, groups) if groups else self

    def take(self, messages: bytes) -> None:
        """A run of messages for plain subscribers reaches the broker."""
        self.written.append(messages)
        if self.full_after is not None and len(self.written) >= self.full_after:
            self.owner.writable(False)

    def publish(self, *messages: bytes) -> None:
        """The domain's publishers sent this, and it was read in one buffer."""
        self.owner.sorter.take(b"".join(messages))
        self.owner.buffer_done()

    def subscribers(self, *changes: tuple[str, str, bool]) -> None:
        """Subscriptions came or went in the domain, told in one buffer."""
        for subject, group, wanted in changes:
            self.owner.interest(subject, group, wanted)
        self.owner.buffer_done()


class _Grouped:
    def __init__(self, attachment: FakeAttachment, groups: tuple[str, ...]) -> None:
        self._attachment = attachment
        self._groups = groups

    def take(self, messages: bytes) -> None:
        self._attachment.grouped.append((self._groups, messages))


class Head:
    """The head connection of domain `a`, with neighbours `b` and `c`, a real engine and a fake broker."""

    def __init__(
        self,
        *,
        rules: TopicRules | None = None,
        max_message_bytes: int = 100,
        queue_bytes: int = 1000,
        markers: Flow | None = None,
        directions: bytes = b"",
        client_limits: RateLimits | None = None,
        silence: Callable[[Head], Silence] | None = None,
        attach: Callable[[AttachmentOwner], Attachment] | None = None,
        mirrors: Callable[[Head], MirrorPlane] | None = None,
        access: AccessRules | None = None,
        letters: LetterBox | None = None,
        audit: AuditLog | None = None,
        names: SiteNames | None = None,
    ) -> None:
        """`attach` makes another broker than the fake one."""
        shape = federation(("a", "b"), ("a", "c"), topics=rules)
        shape = replace(
            shape, limits=Limits(client=client_limits or RateLimits()), access=access or AccessRules()
        )
        self.engine: OverlayEngine = with_links(shape, "a")
        self.ledger = Ledger("a", epoch=1)
        self.border_book = BorderBook(audit)
        self.flushed: list[tuple[int, bytes]] = []
        self.interest: list[tuple[set[str], set[str]]] = []
        self.attachments: list[FakeAttachment] = []
        self.confirmations: list[tuple[tuple[str, int, int], ...]] = []
        """What was confirmed to the other domains."""
        self.connection = HeadConnection(
            self.engine,
            attach or self._attach,
            self.ledger,
            max_message_bytes=max_message_bytes,
            queue_bytes=queue_bytes,
            buffer_done=self._flush,
            confirmed=self._confirm,
            silence=None if silence is None else silence(self),
            markers=markers,
            directions=directions,
            mirrors=None if mirrors is None else mirrors(self),
            border_book=self.border_book,
            names=names,
            letters=letters,
        )

    @property
    def broker(self) -> FakeAttachment:
        return self.attachments[0]

    def wanted_by(self, domain: str, *subjects: str) -> None:
        """Subscribers in another domain want subjects."""
        self._carry_out(learn(self.engine, domain, list(subjects), domain))
        self.connection.change_subscriptions(subjects, ())

    def messages_out(self) -> list[bytes]:
        """What left for other domains so far."""
        return [body for _, body in self.flushed]

    def _attach(self, owner: AttachmentOwner) -> FakeAttachment:
        self.attachments.append(FakeAttachment(owner))
        return self.attachments[-1]

    def _confirm(self, applied: tuple[tuple[str, int, int], ...]) -> None:
        self.confirmations.append(applied)
        self._carry_out(self.engine.subscriptions_confirmed(applied, monotonic()))

    def _flush(self) -> None:
        gathered = [self.engine.flow(flow_id) for flow_id, _ in self.engine.gathered()]
        self.flushed += [(flow.destinations, b"".join(flow._pieces)) for flow in gathered]
        self._carry_out(self.engine.flush(monotonic()))

    def after(self, seconds: float) -> None:
        """So much later, timers are served."""
        self._carry_out(self.engine.handle_timer(monotonic() + seconds))

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, ServeHead):
                self.connection.serve()
            elif isinstance(instruction, ForgetRoutes):
                self.connection.forget_routes(instruction.subjects)
            elif isinstance(instruction, SendFrame) and instruction.frame.type is FrameType.INTEREST:
                update = control_body(instruction.frame)
                assert isinstance(update, InterestUpdate)
                if instruction.peer == "b":  # the same is told to all neighbours
                    self.interest.append((set(update.added), set(update.removed)))


def message(subject: str, payload: bytes = b"x", reply: str = "", groups: tuple[str, ...] = ()) -> bytes:
    """A whole message in the body format."""
    line = Message(subject, reply, -1, len(payload)).line(subject, reply, groups)
    return line + b"\r\n" + payload + b"\r\n"


def identified(subject: str, origin: str, payload: bytes = b"x", reply: str = "") -> bytes:
    """A whole message as the SDK of one publisher writes it."""
    head = f"NATS/1.0\r\nMangrove-Id: {origin}.{1:011x}\r\nMangrove-Time: {10**18}\r\n\r\n".encode()
    line = Message(subject, reply, len(head), len(head) + len(payload)).line(subject, reply)
    return b"%b\r\n%b%b\r\n" % (line, head, payload)
