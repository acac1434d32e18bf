"""Who is awaited and who waits, beside a plain list of all that was told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.gateway.audience.acknowledgements import Acknowledgements, Awaited

CLIENTS = ("alice", "bob", "")


class Plain:
    """The same by looking at everything each time."""

    def __init__(self) -> None:
        self.told: list[tuple[int, Awaited]] = []
        self.waiting: list[tuple[int, int]] = []
        self.done: list[int] = []
        self.tickets = 0

    def tell(self, client: str, number: int, until: float) -> None:
        self.tickets += 1
        self.told.append((self.tickets, Awaited(client, number, until)))

    def known(self, client: str, number: int) -> bool:
        before = len(self.told)
        self.told = [each for each in self.told if (each[1].client, each[1].number) != (client, number)]
        self.release()
        return len(self.told) < before

    def unheard(self, client: str, number: int, until: float) -> None:
        for _, each in self.told:
            if (each.client, each.number) == (client, number):
                each.until, each.heard = min(each.until, until), False

    def after(self, name: int) -> None:
        self.waiting.append((self.tickets, name))
        self.release()

    def expire(self, now: float) -> list[Awaited]:
        late = [each for _, each in self.told if each.until <= now]
        self.told = [(ticket, each) for ticket, each in self.told if each.until > now]
        self.release()
        return late

    def release(self) -> None:
        for ticket, name in list(self.waiting):
            if all(other > ticket for other, _ in self.told):
                self.waiting.remove((ticket, name))
                self.done.append(name)


acts = st.tuples(
    st.sampled_from(["tell", "tell", "known", "unheard", "after", "expire"]),
    st.sampled_from(CLIENTS),
    st.integers(1, 9),
    st.integers(0, 30),
)


@given(st.lists(acts, max_size=80))
def test_as_if_everything_were_looked_at_each_time(found: list[tuple[str, str, int, int]]) -> None:
    real, plain, done, now = Acknowledgements(), Plain(), [], 0.0
    numbers = dict.fromkeys(CLIENTS, 0)
    for name, (act, client, number, wait) in enumerate(found):
        match act:
            case "tell":
                numbers[client] += 1
                for each in (real, plain):
                    each.tell(client, numbers[client], now + wait)
            case "known":
                assert real.known(client, number) == plain.known(client, number)
            case "unheard":
                for each in (real, plain):
                    each.unheard(client, number, now + wait / 2)
            case "after":
                real.after(lambda name=name: done.append(name))  # type: ignore[misc]
                plain.after(name)
            case _:
                now += wait / 3
                late = sorted(real.expire(now), key=lambda each: (each.client, each.number))
                assert late == sorted(plain.expire(now), key=lambda each: (each.client, each.number))
        assert (len(real), real.waiting, done) == (len(plain.told), len(plain.waiting), plain.done)


class Counted(float):
    """A time that counts how often it is compared."""

    looks = 0

    def __lt__(self, other: float) -> bool:
        Counted.looks += 1
        return float(self) < float(other)

    def __le__(self, other: float) -> bool:
        Counted.looks += 1
        return float(self) <= float(other)


def test_who_are_awaited_are_not_all_looked_at_whenever_one_answers() -> None:
    """Somebody subscribes to what thousands of publishers were silent on: they all answer at once."""
    many = 2000
    acknowledgements = Acknowledgements()
    for number in range(many):
        acknowledgements.tell(f"client-{number}", 1, Counted(100.0 + number % 7))
    Counted.looks = 0
    for number in range(many):
        assert acknowledgements.expire(1.0 + number / many) == []
        assert acknowledgements.known(f"client-{number}", 1)
    assert Counted.looks <= 3 * many
    assert acknowledgements.expire(200.0) == []
    assert (len(acknowledgements), Counted.looks <= 50 * many) == (0, True)
