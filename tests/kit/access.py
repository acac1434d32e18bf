"""Access rules for tests: written shortly, and drawn at random."""

from __future__ import annotations

from hypothesis import strategies as st

from mangrove.model.access.rules import AccessRules, Action, Default, Effect, Principal, Rule, Who

DOMAINS = ("a", "b", "c")
CLIENTS = ("anna", "ben")
ROLES = ("client", "operator", "crew")
TOKENS = ("x", "y", "z")

BOTH = (Action.PUBLISH, Action.SUBSCRIBE)


def rule(
    effect: str,
    *subjects: str,
    number: int = 0,
    actions: tuple[Action, ...] = BOTH,
    domain: str = "",
    role: str = "",
    client: str = "",
    to: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
) -> Rule:
    """One rule; what is left out is anybody, or everywhere."""
    who = Who(
        domain=(domain,) if domain else (), role=(role,) if role else (), client=(client,) if client else ()
    )
    return Rule(
        place=f"access[{number}]",
        effect=Effect(effect),
        actions=actions,
        subjects=subjects,
        who=who,
        to=to,
        origins=origins,
    )


def rules(
    *each: Rule, default: str = "allow", between: str = "allow", **roles: tuple[str, ...]
) -> AccessRules:
    """Rules, numbered in their order."""
    numbered = tuple(
        Rule(
            place=f"access[{number}]",
            effect=one.effect,
            actions=one.actions,
            subjects=one.subjects,
            who=one.who,
            to=one.to,
            origins=one.origins,
        )
        for number, one in enumerate(each)
    )
    return AccessRules(default=Default(default), between=Default(between), roles=roles, rules=numbered)


def client(name: str, domain: str, role: str = "client") -> Principal:
    """A client of a domain."""
    return Principal(domain=domain, client=name, role=role)


patterns = st.one_of(
    st.lists(st.sampled_from((*TOKENS, "*")), min_size=1, max_size=4).map(".".join),
    st.lists(st.sampled_from((*TOKENS, "*")), min_size=0, max_size=3).map(
        lambda tokens: ".".join([*tokens, ">"])
    ),
)
"""Patterns, and now and then a literal subject."""
principals = st.builds(
    Principal,
    domain=st.sampled_from(DOMAINS),
    client=st.sampled_from(CLIENTS),
    role=st.sampled_from(("client", "operator")),
)


def _names(*of: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(of), max_size=2, unique=True).map(tuple)


@st.composite
def _rules(draw: st.DrawFn) -> Rule:
    actions = draw(st.sampled_from(((Action.PUBLISH,), (Action.SUBSCRIBE,), BOTH)))
    far = draw(_names(*DOMAINS))
    return Rule(
        place="",
        effect=draw(st.sampled_from(Effect)),
        actions=actions,
        subjects=tuple(draw(st.lists(patterns, min_size=1, max_size=3, unique=True))),
        who=Who(domain=draw(_names(*DOMAINS)), role=draw(_names(*ROLES)), client=draw(_names(*CLIENTS))),
        to=far if actions == (Action.PUBLISH,) else (),
        origins=far if actions == (Action.SUBSCRIBE,) else (),
    )


@st.composite
def access_rules(draw: st.DrawFn) -> AccessRules:
    """A handful of rules about few names, so that they often meet."""
    return rules(
        *draw(st.lists(_rules(), max_size=6)),
        default=draw(st.sampled_from(("allow", "deny"))),
        between=draw(st.sampled_from(("allow", "deny"))),
        crew=draw(_names("anna", "b/ben")),
    )
