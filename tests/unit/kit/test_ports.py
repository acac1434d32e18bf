"""Blocks of ports are one test's alone, and the processes under test can use them."""

from __future__ import annotations

import socket

import pytest
from tests.kit.ports import BLOCK, PortBlocks

from mangrove.host.ports import PortReservation


def test_two_test_runs_never_hold_the_same_block() -> None:
    with PortBlocks() as first, PortBlocks() as second:
        mine = {first.take(), first.take()}
        assert len(mine) == 2
        assert second.take() not in mine


def test_what_is_under_test_reserves_and_listens_where_the_test_holds() -> None:
    with PortBlocks() as blocks, PortReservation() as reservation:
        base = blocks.take()
        for port in range(base, base + BLOCK):
            assert reservation.take("127.0.0.1", port) == port
        with socket.create_server(("127.0.0.1", base)) as server:
            assert server.getsockname()[1] == base
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", base))
