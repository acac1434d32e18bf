"""From a document to a plan: a whole `Plan`, a case base, or an answer of `plan mirror` or `plan allocate`.

All mistakes are reported together, each with its place. What a document does not say of its origin an
operator may (the domain), or follows (a topic is an item by itself); the rest is a mistake. Whether the plan
suits the domain is judged by `checks`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from mangrove.errors import InvalidDocumentError, Mistake, Mistakes
from mangrove.model.plans.figures import PlanFigures
from mangrove.model.plans.packing import PackingError, unpacked
from mangrove.model.plans.plan import FORMAT_VERSION, Placing, Plan, PlanCase, PlannedItem

MAX_ITEMS = 20_000
MAX_TOPICS = 200_000
MAX_CASES = 5_000
LATEST_S = 1e11
"""A time beyond this is in milliseconds, or nonsense."""
FORMS = "a plan, or the answer of `plan allocate|mirror --json`, or the file of `plan cases --output`"


def read_plan(data: bytes, source: str, *, federation: str, domain: str, now_s: float) -> Plan:
    """The plan in a document for a domain of a federation; raises `InvalidDocumentError` with all mistakes.

    `now_s` (seconds since 1970) stands in for the time at which it was made, if it does not say.
    """
    reader = _Reader(_json(data, source), source)
    return reader.plan(federation, domain, now_s)


def _json(data: bytes, source: str) -> dict[str, Any]:
    """The standard decoder lets NaN through, so that the place can be named."""
    try:
        document = json.loads(unpacked(data))
    except PackingError as error:
        raise InvalidDocumentError(source, [Mistake("", str(error))]) from None
    except (ValueError, RecursionError) as error:  # also of a number with thousands of digits
        raise InvalidDocumentError(
            source, [Mistake("", f"not JSON, or only a part of it: {error}", FORMS)]
        ) from None
    if not isinstance(document, dict):
        raise InvalidDocumentError(source, [Mistake("", "not a JSON object", FORMS)])
    return document


class _Reader:
    """Reads one document; what is wrong is noted, and reading goes on."""

    def __init__(self, document: dict[str, Any], source: str) -> None:
        self._document = document
        self._mistakes = Mistakes(source)

    def plan(self, federation: str, domain: str, now_s: float) -> Plan:
        document = self._document
        cases = self._cases()
        named = self._items(cases)
        made_at = self._time("made_at", now_s)
        read = Plan(
            federation=self._name("federation", federation),
            domain=self._name("domain", domain),
            topology=self._name("topology", ""),
            made_at=made_at,
            data_until=self._time("data_until", made_at),
            items=named,
            cases=cases,
            source=self._name("source", ""),
            figures=self._figures({each.item for each in named}),
        )
        if not document.get("federation"):
            self._note("federation", "missing", f"the name of the federation it is for, here {federation!r}")
        self._mistakes.raise_if_any()
        return read

    def _note(self, path: str, problem: str, allowed: str = "") -> None:
        self._mistakes.note(path, problem, allowed)

    # -- origin ---------------------------------------------------------------------------------------------

    def _name(self, field: str, default: str) -> str:
        value = self._document.get(field, default)
        if not isinstance(value, str):
            self._note(field, repr(value)[:60], "a text")
            return default
        return value

    def _time(self, field: str, default: float) -> float:
        value = self._document.get(field)
        if value is None:
            return default
        if not _finite(value) or not 0 <= value < LATEST_S:
            self._note(field, repr(value)[:60], "seconds since 1970")
            return default
        return float(value)

    def _figures(self, items: set[str]) -> PlanFigures | None:
        given = self._document.get("figures")
        if given is None:
            return None
        try:
            figures = msgspec.convert(given, PlanFigures)
        except msgspec.ValidationError as error:
            self._note("figures", str(error))
            return None
        from mangrove.control.plans.figures import figures_problem  # numerics are for this rare moment alone

        if problem := figures_problem(figures):
            self._note("figures", problem)
            return None
        if set(figures.items) != items:
            self._note("figures.items", "are not the items of the plan")
        return figures

    # -- cases ----------------------------------------------------------------------------------------------

    def _cases(self) -> tuple[PlanCase, ...]:
        document = self._document
        if isinstance(document.get("cases"), list):
            return self._many_cases(document["cases"])
        if document.get("infeasible") and isinstance(document.get("closest"), Mapping):
            # A mirror plan after some failure of which bounds break is still the best there is.
            closest = document["closest"]
            if "mirrors" not in closest:
                self._note("infeasible", f"no allocation keeps the bounds: {document.get('reason', '')}")
                return ()
            self._document = document = {**document, **closest}
        if isinstance(document.get("mirrors"), Mapping):
            return self._mirror_answer()
        if isinstance(document.get("allocation"), Mapping):
            return (self._case(document, ""),)
        self._note("", "neither `cases` nor `mirrors` nor `allocation`", FORMS)
        return ()

    def _many_cases(self, given: list[Any]) -> tuple[PlanCase, ...]:
        """Those of a plan or of a case base: the latter have a `state` each."""
        from mangrove.planning.policies.case_base import FORMAT_VERSION as CASE_BASE_VERSION

        of_base = any(isinstance(case, Mapping) and "state" in case for case in given)
        wanted = CASE_BASE_VERSION if of_base else FORMAT_VERSION
        what, version = ("case base" if of_base else "plan"), self._document.get("version")
        if version != wanted:
            self._note("version", f"{version!r} of a {what}", f"{wanted}; compute it again with this release")
            return ()
        if not 0 < len(given) <= MAX_CASES:
            self._note("cases", f"{len(given)} cases", f"1 to {MAX_CASES}")
            return ()
        read = self._base_case if of_base else self._plan_case
        cases = tuple(
            read(case, f"cases[{index}]")
            for index, case in enumerate(given)
            if self._is_object(case, f"cases[{index}]")
        )
        ordered = tuple(sorted(cases, key=lambda case: bool(case.failed) or case.load != 1.0))
        if ordered and (ordered[0].failed or ordered[0].load != 1.0):
            self._note("cases", "none is of the normal state: all brokers up, load 1")
        states = [(frozenset(case.failed), case.load) for case in ordered]
        if len(set(states)) < len(states):
            self._note("cases", "two are of the same state")
        return ordered

    def _is_object(self, case: object, path: str) -> bool:
        if not isinstance(case, Mapping):
            self._note(path, "not an object")
        return isinstance(case, Mapping)

    def _plan_case(self, case: Mapping[str, Any], path: str) -> PlanCase:
        given = case.get("placing")
        placing: dict[str, Placing] = {}
        if not isinstance(given, Mapping):
            self._note(f"{path}.placing", "missing", "items with `primary` and `mirror`")
            given = {}
        for item, each in given.items():
            primary = each.get("primary") if isinstance(each, Mapping) else None
            mirror = each.get("mirror", "") if isinstance(each, Mapping) else None
            if not isinstance(primary, str) or not primary or not isinstance(mirror, str):
                self._note(f"{path}.placing.{item}", repr(each)[:60], '{"primary": …, "mirror": …}')
            else:
                placing[item] = Placing(primary=primary, mirror=mirror)
        return self._state(case, case, placing, path)

    def _base_case(self, case: Mapping[str, Any], path: str) -> PlanCase:
        state = case.get("state")
        if not isinstance(state, Mapping):
            self._note(f"{path}.state", "missing")
            state = {}
        return self._case(case, path, state)

    def _case(self, case: Mapping[str, Any], path: str, state: Mapping[str, Any] | None = None) -> PlanCase:
        """One with `allocation` and, perhaps, `mirrors` by item."""
        place = f"{path}.allocation" if path else "allocation"
        primaries: dict[str, str] = {}
        allocation = case.get("allocation")
        if not isinstance(allocation, Mapping):
            self._note(place, "missing", "brokers with their items")
            allocation = {}
        for broker, items in allocation.items():
            if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
                self._note(f"{place}.{broker}", repr(items)[:60], "a list of items")
                continue
            for item in items:
                if item in primaries:
                    self._note(f"{place}.{broker}", f"{item!r} is also on {primaries[item]}")
                primaries[item] = broker
        return self._state(case, state or {}, self._placing(case, primaries, path), path)

    def _placing(
        self, case: Mapping[str, Any], primaries: Mapping[str, str], path: str
    ) -> dict[str, Placing]:
        given = case.get("mirrors")
        mirrors: dict[str, str] = {}
        for item, mirror in given.items() if isinstance(given, Mapping) else ():
            if item not in primaries:
                self._note(f"{path}.mirrors.{item}".lstrip("."), "has no broker in `allocation`")
            elif not isinstance(mirror, str):
                self._note(f"{path}.mirrors.{item}".lstrip("."), repr(mirror)[:60], "the name of a broker")
            else:
                mirrors[item] = mirror
        return {
            item: Placing(primary=broker, mirror=mirrors.get(item, "")) for item, broker in primaries.items()
        }

    def _mirror_answer(self) -> tuple[PlanCase, ...]:
        """`normal` has all items, `mirrors` those that ask; `failures` what is left after each."""
        document = self._document
        mirrors: dict[str, str] = {}
        for item, each in document["mirrors"].items():
            mirror = each.get("mirror") if isinstance(each, Mapping) else 0
            if not isinstance(mirror, str | None):
                self._note(f"mirrors.{item}", repr(each)[:60], '{"primary": …, "mirror": …}')
            else:
                mirrors[item] = mirror or ""
        if not self._is_object(document.get("normal"), "normal"):
            return ()
        normal = self._case({**_outcome(document["normal"]), "mirrors": mirrors}, "normal")
        everywhere = list(_allocation(document["normal"]))
        cases = [normal]
        for field in ("failures", "host_failures"):
            failures = document.get(field)
            for name, failure in failures.items() if isinstance(failures, Mapping) else ():
                if self._is_object(failure, f"{field}.{name}"):
                    left = _allocation(failure)
                    failed = [broker for broker in everywhere if broker not in left]
                    cases.append(self._case(_outcome(failure), f"{field}.{name}", {"failed": failed}))
        # A host with one broker fails as that broker does.
        states = {frozenset(case.failed): case for case in reversed(cases)}
        return (normal, *(case for failed, case in states.items() if failed))

    def _state(
        self, case: Mapping[str, Any], state: Mapping[str, Any], placing: dict[str, Placing], path: str
    ) -> PlanCase:
        def at(field: str) -> str:
            return f"{path}.{field}" if path else field

        risk: dict[str, float] = {}
        given = case.get("risk", {})
        for broker, value in given.items() if isinstance(given, Mapping) else ():
            if not _finite(value) or not 0 <= value <= 1:
                self._note(f"{at('risk')}.{broker}", repr(value)[:60], "a probability")
            else:
                risk[broker] = float(value)
        joint = case.get("joint_ok", 1.0)
        if not _finite(joint) or not 0 <= joint <= 1 + 1e-9:
            self._note(at("joint_ok"), repr(joint)[:60], "a probability")
            joint = 0.0
        load = state.get("load", 1.0)
        if not _finite(load) or not 0 < load <= 1000:
            self._note(at("load"), repr(load)[:60], "a multiple of the planned load, above 0")
            load = 1.0
        reason = case.get("reason")
        return PlanCase(
            failed=self._brokers(state.get("failed", []), at("failed")),
            load=float(load),
            off=self._brokers(case.get("off", []), at("off")),
            placing=placing,
            risk=risk,
            joint_ok=min(1.0, float(joint)),
            feasible=case.get("feasible") is not False,
            reason=reason if isinstance(reason, str) else "",
        )

    def _brokers(self, given: object, path: str) -> tuple[str, ...]:
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            self._note(path, repr(given)[:60], "a list of brokers")
            return ()
        return tuple(given)

    # -- items ----------------------------------------------------------------------------------------------

    def _items(self, cases: tuple[PlanCase, ...]) -> tuple[PlannedItem, ...]:
        """Every item of the normal case, with its topics."""
        if not cases:
            return ()
        placed = cases[0].placing
        if not 0 < len(placed) <= MAX_ITEMS:
            self._note("", f"{len(placed)} items are placed", f"1 to {MAX_ITEMS}")
        given = self._document.get("items")
        if isinstance(given, list) and any(isinstance(each, Mapping) for each in given):
            topics = self._listed_topics(given)
        else:
            topics = self._topics_of(placed)
        for item in sorted(placed.keys() - topics.keys())[:20]:
            self._note(f"items.{item}", "is placed, and nothing says which topics it is")
        for item in sorted(topics.keys() - placed.keys())[:20]:
            self._note(f"items.{item}", "has no broker")
        for index, case in enumerate(cases[1:], 1):
            for item in sorted(case.placing.keys() ^ placed.keys())[:3]:
                self._note(f"cases[{index}]", f"{item!r} is not in both this state and the normal one")
        if sum(map(len, topics.values())) > MAX_TOPICS:
            self._note("items", f"more than {MAX_TOPICS} topics")
        return tuple(PlannedItem(item=item, topics=each) for item, each in topics.items())

    def _listed_topics(self, given: list[Any]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for index, each in enumerate(given):
            item = each.get("item") if isinstance(each, Mapping) else None
            if not isinstance(item, str) or not item:
                self._note(f"items[{index}]", repr(each)[:60], '{"item": …, "topics": […]}')
            elif item in found:
                self._note(f"items[{index}]", f"{item!r} is there twice")
            else:
                found[item] = self._topic_list(each.get("topics"), f"items[{index}].topics")
        return found

    def _topics_of(self, placed: Mapping[str, Placing]) -> dict[str, tuple[str, ...]]:
        """By `topics`; an item that is not there is a topic itself, `topic@domain` where several have it."""
        given = self._document.get("topics", {})
        if not isinstance(given, Mapping):
            self._note("topics", repr(given)[:60], "items with their topics")
            given = {}
        for item in sorted(given.keys() - placed.keys())[:20]:
            self._note(f"topics.{item}", f"there is no item {item!r}")
        return {
            item: self._topic_list(given[item], f"topics.{item}") if item in given else (_topic(item),)
            for item in placed
        }

    def _topic_list(self, given: object, path: str) -> tuple[str, ...]:
        if not isinstance(given, list) or not given or not all(isinstance(each, str) for each in given):
            self._note(path, repr(given)[:60], "a list of subjects or patterns")
            return ()
        return tuple(given)


def _outcome(told: Mapping[str, Any]) -> dict[str, Any]:
    """An outcome with its figures, also if some bound is broken in it."""
    closest = told.get("closest")
    if not told.get("infeasible") or not isinstance(closest, Mapping):
        return dict(told)
    return {**told, **closest, "feasible": False}


def _allocation(told: Mapping[str, Any]) -> Mapping[str, Any]:
    found = _outcome(told).get("allocation")
    return found if isinstance(found, Mapping) else {}


def _topic(item: str) -> str:
    return item.rpartition("@")[0] or item


def _finite(value: object) -> bool:
    """Whether it is a number that a plan can have: not one with more digits than any float."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False
