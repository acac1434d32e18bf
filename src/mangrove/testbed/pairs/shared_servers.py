"""nats-servers with two accounts: native leaf nodes join one, gateways the other, on the same machine."""

from __future__ import annotations

HOST = "127.0.0.1"
ACCOUNTS = ("native", "mangrove")


def shared_server_config(name: str, client: int, leaf: int, remote: int | None) -> str:
    """One server, with a leaf node of the native account to the server that listens at port `remote`."""
    remotes = (
        f'remotes: [ {{ url: "nats-leaf://native:native@{HOST}:{remote}", account: NATIVE }} ]'
        if remote
        else ""
    )
    users = ", ".join(
        f"{{ user: {account}, password: {account}, account: {account.upper()} }}" for account in ACCOUNTS
    )
    return f"""
server_name: "{name}"
listen: "{HOST}:{client}"
accounts {{
  NATIVE {{ users: [ {{ user: native, password: native }} ] }}
  MANGROVE {{ users: [ {{ user: mangrove, password: mangrove }} ] }}
}}
leafnodes {{
  listen: "{HOST}:{leaf}"
  authorization {{ users: [ {users} ] }}
  {remotes}
}}
"""
