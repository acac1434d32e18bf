"""What an agent says of its edges: which topics each serves, and which of them is used most."""

from __future__ import annotations

from mangrove.agent.management import ManagementConnection
from mangrove.errors import MangroveError
from mangrove.model.agents.directory import DirectoryQuestion


async def serving(management: ManagementConnection) -> dict[str, tuple[str, ...]]:
    """Topics by the edge that serves them, as the directory has it."""
    serves: dict[str, list[str]] = {}
    answer = await management.directory(DirectoryQuestion())
    for topic in () if answer is None else answer.topics:
        for edge in topic.record.edges if topic.record is not None else ():
            serves.setdefault(edge, []).append(topic.topic)
    return {edge: tuple(topics) for edge, topics in serves.items()}


async def busiest_edge(management: ManagementConnection) -> tuple[str, frozenset[str]]:
    """The edge that is used most, and the sessions that there were so far."""
    status = await management.agent_status()
    if status is None:
        raise MangroveError("the agent does not answer", hint="keep its log with --run-dir DIR")
    edges = [load for load in status.brokers if load.role == "edge"]
    busiest = max(edges, key=lambda load: (max(load.utilisation.values(), default=0.0), load.broker))
    return busiest.broker, frozenset(session.id for session in status.sessions)
