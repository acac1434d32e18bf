"""What was delivered is known after a restart."""

from __future__ import annotations

from pathlib import Path

from tests.kit.engines import federation
from tests.kit.frames import Seconds, frame

from mangrove.gateway.delivery_journal import DeliveryJournal, names_in
from mangrove.overlay.delivery.delivery import Delivery
from mangrove.overlay.protocol.frames import Name


def test_the_journal_survives_its_process(tmp_path: Path) -> None:
    path = tmp_path / "delivered" / "a.ring"
    journal = DeliveryJournal(path, entries=4)
    for number in range(1, 7):
        journal.record(frame(origin=1, epoch=9, sequence=number))
    # Not closed: a process that is killed closes nothing.
    again = DeliveryJournal(path, entries=4)
    assert sorted(again.names()) == [Name(1, 9, 0, number) for number in range(3, 7)]
    delivery = Delivery(federation(("a", "b")), own_bit=1, patience=Seconds(0.25))
    delivery.remember(again.names())
    assert delivery.arrived(frame(origin=1, epoch=9, sequence=6), 0.0) == []
    assert len(delivery.arrived(frame(origin=1, epoch=9, sequence=7), 0.0)) == 1
    assert delivery.resequencer.timer() is None
    assert sorted(names_in(path)) == sorted(again.names()), "another gateway of the domain may ask"
    path.write_bytes(b"damaged")
    assert names_in(path) == names_in(tmp_path / "nowhere") == []
    assert DeliveryJournal(path, entries=4).names() == []
    journal.close()
    again.close()
