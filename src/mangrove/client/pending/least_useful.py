"""What waits is left out by its usefulness, the least useful first: ePEER's future work (§6.2)."""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Sequence

from mangrove.client.message import Message, size_of
from mangrove.client.pending.waiting import NOTHING, nothing
from mangrove.client.usefulness.judge import Judge

UNKNOWN_UTILITY = 0.5
"""What a message counts whose usefulness is not known, or not yet."""
JUDGED_AT_LEAST = 64
ASKED_AT_A_TIME = 256
"""Messages that a user's function gets at once."""


class DropLeastUseful:
    """Leaves out the least useful of what waits, of equally useful ones the older; is read in order.

    Judging begins when half of the room is taken, two messages for each that comes: so all are judged when
    it is full, each one once, and a reader that keeps up costs nothing.
    """

    def __init__(self, max_messages: int, max_bytes: int, judge: Judge) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self.taken_in = 0
        self.take_back = nothing
        self._judge = judge
        self._waiting: OrderedDict[int, Message] = OrderedDict()
        """By number, in the order in which they came."""
        self._utilities: dict[int, float] = {}
        self._least: list[tuple[float, int]] = []
        """A heap; entries that `_utilities` does not confirm are of the past."""
        self._judged = 0
        """Those with smaller numbers have been judged."""
        self._unasked: deque[int] = deque()
        """Those that the user's function has not judged."""
        self._asking = False

    @property
    def messages(self) -> int:
        """See `Waiting`."""
        return len(self._waiting)

    def put(self, messages: list[Message], size_bytes: int) -> list[Message]:
        """See `Waiting`."""
        self._waiting.update(enumerate(messages, self.taken_in))
        self.taken_in += len(messages)
        self.size_bytes += sum(map(size_of, messages))
        if 2 * len(self._waiting) <= self.max_messages and 2 * self.size_bytes <= self.max_bytes:
            return NOTHING
        self._judge_some(2 * len(messages) + JUDGED_AT_LEAST)
        lost = self._shrink() if self._over else NOTHING
        self._forget_the_past()
        return lost

    @property
    def _over(self) -> bool:
        waiting = len(self._waiting)
        return waiting > 1 and (waiting > self.max_messages or self.size_bytes > self.max_bytes)

    def _judge_some(self, most: int) -> None:
        first = max(self._judged, self.before_first)
        self._judged = min(first + most, self.taken_in)
        for number in range(first, self._judged):
            utility = self._judge.utility(self._waiting[number])
            self._set(number, UNKNOWN_UTILITY if utility is None else utility)
            if utility is None and self._judge.asks:
                self._unasked.append(number)
        if self._unasked and not self._asking:
            self._ask()

    def _set(self, number: int, utility: float) -> None:
        self._utilities[number] = utility
        heapq.heappush(self._least, (utility, number))

    def _shrink(self) -> list[Message]:
        lost: list[tuple[int, Message]] = []
        while self._over:
            if not self._least:
                self._judge_some(JUDGED_AT_LEAST)
            utility, number = heapq.heappop(self._least)
            if self._utilities.get(number) == utility:
                del self._utilities[number]
                message = self._waiting.pop(number)
                self.size_bytes -= size_of(message)
                lost.append((number, message))
        lost.sort(key=lambda numbered: numbered[0])
        return [message for _, message in lost]

    def _forget_the_past(self) -> None:
        """Messages that were read, or left out, are in the heap no more than others are."""
        if len(self._least) > 2 * len(self._waiting) + ASKED_AT_A_TIME:
            self._least = [(utility, number) for number, utility in self._utilities.items()]
            heapq.heapify(self._least)
        if len(self._unasked) > 2 * len(self._waiting) + ASKED_AT_A_TIME:
            self._unasked = deque(number for number in self._unasked if number in self._waiting)

    def _ask(self) -> None:
        """Have the user's function judge some that wait; they count as unknown until it has."""
        numbers: list[int] = []
        while self._unasked and len(numbers) < ASKED_AT_A_TIME:
            number = self._unasked.popleft()
            if number in self._waiting:
                numbers.append(number)
        if not numbers:
            return

        def told(utilities: Sequence[float | None]) -> None:
            self._asking = False
            for number, utility in zip(numbers, utilities, strict=True):
                if utility is not None and number in self._waiting:
                    self._set(number, utility)
            if self._unasked:
                self._ask()

        self._asking = self._judge.ask([self._waiting[number] for number in numbers], told)

    def take(self) -> list[Message]:
        """One at a time: what is in hand can no longer be left out."""
        if not self._waiting:
            return NOTHING
        number, message = self._waiting.popitem(last=False)
        self._utilities.pop(number, None)
        self.size_bytes -= size_of(message)
        return [message]

    @property
    def before_first(self) -> int:
        """See `Waiting`."""
        return next(iter(self._waiting), self.taken_in)
