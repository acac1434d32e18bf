"""The encryption of each of a nats-server's listeners, and of what it connects to itself.

Clients and MQTT devices show who they are by a key or a password, so no certificate is asked of them. Routes
join the members of a cluster, and who comes by one may do anything: only a certificate that was issued to a
broker of the same domain is taken there.
"""

from __future__ import annotations

from mangrove.broker.nats.configuration.syntax import quoted
from mangrove.broker.security import BrokerSecurity
from mangrove.model.security.identity import brokers_name

TIMEOUT_S = 3
"""For a handshake; a slow one holds a connection and nothing else."""
NEWEST_ONLY = "1.3"


def listener_tls(security: BrokerSecurity, *, min_version: str = "") -> str:
    """For those who connect; without `min_version`, from TLS 1.2 on, which old devices have."""
    return f"tls {{ {_own(security)}{_version(min_version)} }}"


def remote_tls(security: BrokerSecurity) -> str:
    """For a broker that this one attaches to: it must show a certificate of the federation's authority."""
    return f"tls {{ ca_file: {quoted(security.authorities)}, timeout: {TIMEOUT_S}{_version(NEWEST_ONLY)} }}"


def route_tls(security: BrokerSecurity) -> str:
    """For the members of a cluster, at both ends: who comes shows that it is a broker of this domain."""
    user = quoted(brokers_name(security.federation, security.domain))
    mapped = f"{_own(security)}{_version(NEWEST_ONLY)}, verify_and_map: true"
    return f"authorization {{ user: {user} }}, tls {{ {mapped} }}"


def _own(security: BrokerSecurity) -> str:
    return (
        f"cert_file: {quoted(security.certificate)}, key_file: {quoted(security.key)}, "
        f"ca_file: {quoted(security.authorities)}, timeout: {TIMEOUT_S}"
    )


def _version(minimum: str) -> str:
    return f", min_version: {quoted(minimum)}" if minimum else ""
