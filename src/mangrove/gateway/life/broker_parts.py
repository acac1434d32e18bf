"""The parts of a gateway that stand at brokers of its domain, each with the login that it needs there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mangrove.broker.attachment import Attachment, AttachmentOwner, Places
from mangrove.broker.kinds import RetainedStores, kind_of
from mangrove.broker.retained import RetainedStore, RetainedStoreOwner
from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.letter_post import LetterPost
from mangrove.gateway.management.voucher import Voucher
from mangrove.gateway.mirroring.mirror_plane import MirrorPlane
from mangrove.gateway.naming.renamed_store import RenamedStore
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.gateway.probing.site_probe import HEAD, SiteProbe
from mangrove.gateway.retained import RetainedMirror
from mangrove.host.keys.login import LoginSource
from mangrove.host.keys.logins.external_login import external_login
from mangrove.host.keys.logins.user_login import login_of
from mangrove.model.gateway_settings import GatewaySettings
from mangrove.model.security.users import GATEWAY_USER, PROBE_USER
from mangrove.model.subjects import egress_marker_subject
from mangrove.overlay.engine import OverlayEngine


class BrokerParts:
    """Makes them, as far as the kind of the brokers has them."""

    def __init__(
        self,
        settings: GatewaySettings,
        name: str,
        engine: OverlayEngine,
        ledger: Ledger,
        border_book: BorderBook,
        names: SiteNames,
    ) -> None:
        """`name` is what the gateway calls itself at brokers."""
        self._settings = settings
        self._kind = kind_of(settings.head_kind)
        self._name = name
        self._engine = engine
        self._ledger = ledger
        self._border_book = border_book
        self._names = names
        self._places: Places = []

    def attach(self) -> Callable[[AttachmentOwner], Attachment]:
        """Who makes the attachment to the head broker."""
        settings = self._settings
        return partial(
            self._kind.attach,
            self._name,
            settings.head_urls,
            together="" if settings.pair is None else f"gateways-{settings.domain}",
            login=self._attach_login(),
            places=self._places,
        )

    def mirrors(self, flush: Callable[[], None]) -> MirrorPlane | None:
        """The second way of mirrored topics; None if there are none.

        Without edges to lead it by, it still tells copies of messages apart that come from elsewhere.
        """
        settings = self._settings
        federation = settings.federation
        if not any(each.mirror for each in federation.topics.contracts):
            return None
        return MirrorPlane(
            self._engine,
            {
                edge: partial(
                    self._kind.attach,
                    f"{self._name}-mirror",
                    (url,),
                    login=self.login(),
                    places=self._places,
                )
                for edge, url in settings.mirror_urls.items()
            },
            self._ledger,
            max_message_bytes=federation.max_message_bytes,
            buffer_done=flush,
        )

    def retained(self, post: LetterPost) -> RetainedMirror | None:
        """Who keeps the retained messages of this domain in step with those of the others."""
        settings, stores = self._settings, self._kind.retained
        if not settings.head_client_url or not stores:
            return None
        return RetainedMirror(
            settings.domain,
            self._engine.rules,
            self._ledger,
            max_message_bytes=settings.federation.max_message_bytes,
            store=partial(self._retained_store, stores),
            send=post.send,
            reachable=post.reachable,
            border=self._engine.border,
            border_book=self._border_book,
        )

    def _retained_store(self, stores: RetainedStores, owner: RetainedStoreOwner) -> RetainedStore:
        def store(owner: RetainedStoreOwner) -> RetainedStore:
            return stores(
                self._settings.head_client_url,
                self._name,
                owner,
                ours=self._settings.head_is_ours,
                login=self._client_login(HEAD),
            )

        return RenamedStore(self._names, store, owner)

    def probe(self, measured: Callable[[float, float], None]) -> SiteProbe | None:
        """Who measures how long messages are inside this domain."""
        settings, probes = self._settings, self._kind.probe
        if not settings.head_client_url or not probes:
            return None
        urls = {HEAD: settings.head_client_url, **settings.edge_client_urls}
        subject = egress_marker_subject(settings.domain)
        return SiteProbe(
            settings.domain,
            lambda owner: {
                broker: probes(broker, url, subject, owner, self._client_login(broker))
                for broker, url in urls.items()
            },
            measured,
        )

    def voucher(self) -> Voucher:
        """Who says which attachments are this gateway's."""
        return Voucher(self._places, self.login())

    def login(self) -> LoginSource | None:
        """Who this gateway is at brokers of ours."""
        return login_of(self._settings.keys, GATEWAY_USER)

    def _attach_login(self) -> LoginSource | None:
        """Who it is where it attaches; somebody else's head knows no user of ours."""
        return self.login() if self._settings.head_is_ours else self._external_login()

    def _client_login(self, broker: str) -> LoginSource | None:
        """Who it is at a broker as its client; somebody else's head knows no user of ours."""
        ours = broker != HEAD or self._settings.head_is_ours
        return login_of(self._settings.keys, PROBE_USER) if ours else self._external_login()

    def _external_login(self) -> LoginSource | None:
        return external_login(self._settings.federation.domains[self._settings.domain].external)
