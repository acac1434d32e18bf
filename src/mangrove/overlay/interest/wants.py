"""What a domain wants, as one text for the wire and for sets: `subject`, or `subject group`."""

from __future__ import annotations

from mangrove.model.subjects import group_problem, is_internal, subject_problem


def want(subject: str, group: str) -> str:
    """The text for a subscription; the empty group stands for plain subscribers."""
    return f"{subject} {group}" if group else subject


def subject_of(wanted: str) -> str:
    """The subject of a want."""
    return wanted.partition(" ")[0]


def parts(wanted: str) -> tuple[str, str]:
    """Subject and group; the group is empty for plain subscribers."""
    subject, _, group = wanted.partition(" ")
    return subject, group


def acceptable(wanted: str) -> bool:
    """Wants from elsewhere end up in the head broker's protocol: only well-formed, federated ones may."""
    subject, space, group = wanted.partition(" ")
    if is_internal(subject) or subject_problem(subject, wildcards=True):
        return False
    return not space or not group_problem(group)
