"""One door to all path methods: from two nodes and a method to a plan of parallel paths."""

from __future__ import annotations

import math
from enum import Enum
from itertools import combinations
from typing import NamedTuple

import msgspec
import numpy as np

from mangrove.errors import InputError
from mangrove.routing.network.geography import distances
from mangrove.routing.network.graph import Graph, NodePath, NoPathError
from mangrove.routing.network.proximity import near_share
from mangrove.routing.paths.disjoint import disjoint_paths
from mangrove.routing.paths.gap import GapOptions, separated_paths
from mangrove.routing.paths.ksp import least_proximate
from mangrove.routing.paths.path_limits import FREE, PathLimits
from mangrove.routing.paths.penalty import Relaxation
from mangrove.routing.paths.resilience import MAX_PATHS, most_resilient, resiliency
from mangrove.routing.paths.shortest import shortest_path, shortest_within_hops


class Method(Enum):
    """How alternatives are found."""

    GAP_DIV = "gap-div"
    GAP_LOG = "gap-log"
    KSP = "ksp"
    DISJOINT = "disjoint"
    RESILIENT = "resilient"


class PathRequest(msgspec.Struct, frozen=True):
    """What is asked for. `paths` counts the primary; `k` is the search depth of ksp and resilient."""

    method: Method = Method.GAP_DIV
    paths: int = 2
    separation: float | None = None  # None: `default_separation`
    limits: PathLimits = FREE
    k: int = 10
    scaled: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.paths <= MAX_PATHS:
            raise InputError(f"between 1 and {MAX_PATHS} paths can be asked for, not {self.paths}")
        if self.k < 1:
            raise InputError(f"the search depth k must be at least 1, not {self.k}")


class PathPlan(msgspec.Struct, frozen=True):
    """Parallel paths between two nodes; the primary is first."""

    paths: tuple[NodePath, ...]
    proximity: float | None  # largest share of near nodes between two of the paths; None for a single path
    resiliency: float
    penalty_steps: int  # most penalised searches that one alternative took; 0 for methods without a penalty
    penalties: tuple[float, ...]  # penalty under which each alternative was found; 0 when none led to it
    separation: float | None
    warnings: tuple[str, ...]


def plan_paths(
    graph: Graph, source: int, destination: int, request: PathRequest, primary: NodePath | None = None
) -> PathPlan:
    """The primary path and its alternatives. A given `primary` is kept as it is, whatever chose it."""
    found = _find(graph, source, destination, request, primary)
    paths, separation = found.paths, found.separation
    return PathPlan(
        paths=paths,
        proximity=largest_proximity(graph, paths, separation) if separation is not None else None,
        resiliency=resiliency(graph, paths),
        penalty_steps=found.steps,
        penalties=found.penalties,
        separation=separation,
        warnings=_shortfall(graph, paths, request),
    )


def parallel_paths(
    graph: Graph, source: int, destination: int, request: PathRequest, primary: NodePath | None = None
) -> tuple[NodePath, ...]:
    """The paths of `plan_paths`, for those who judge them by themselves."""
    return _find(graph, source, destination, request, primary).paths


class _Found(NamedTuple):
    paths: tuple[NodePath, ...]
    penalties: tuple[float, ...]
    steps: int
    separation: float | None


def _find(
    graph: Graph, source: int, destination: int, request: PathRequest, primary: NodePath | None
) -> _Found:
    if source == destination:
        raise InputError(f"source and destination are the same node, {graph.names[source]!r}")
    if primary is not None and (len(primary) < 2 or (primary[0], primary[-1]) != (source, destination)):
        raise InputError("the given primary path does not lead from the source to the destination")
    if primary is not None and request.method is Method.RESILIENT:
        raise InputError("the resilient method chooses all of its paths itself; leave the primary path out")
    needs_places = request.method is not Method.RESILIENT and request.method is not Method.DISJOINT
    separation = request.separation
    if needs_places or separation is not None:
        require_places(graph, linked=True)
    if separation is None and not graph.without_places and not graph.unplaced:
        separation = default_separation(graph)
    if primary is None:
        primary = best_primary(graph, source, destination, request.limits)
    return _Found(*_alternatives(graph, primary, request, separation or 1.0), separation)


def best_primary(graph: Graph, source: int, destination: int, limits: PathLimits = FREE) -> NodePath:
    """The shortest path within the limits; `NoPathError` when there is none."""
    path = shortest_path(graph, source, destination)
    if limits.max_hops is not None and len(path) - 1 > limits.max_hops:
        path = shortest_within_hops(graph, source, destination, limits.max_hops)
    if not path or not limits.hold(graph, path):
        shortest = shortest_path(graph, source, destination)
        raise NoPathError(
            graph.names[source],
            graph.names[destination],
            f"none keeps within {limits}; the shortest has delay {graph.length(shortest):g} "
            f"and {len(shortest) - 1} hops",
        )
    return path


def default_separation(graph: Graph) -> float:
    """A fifth of the topology's width, the proportion of the thesis's experiment (2000 on a side of 10,000).

    The width is the distance between two far nodes, found in two sweeps, over the square root of two. Nodes
    without a place do not count.
    """
    placed = graph.positions[~np.isnan(graph.points).any(axis=1)]
    far = int(distances(graph.plane, placed[:1], placed)[0].argmax())
    widest = float(distances(graph.plane, placed[far : far + 1], placed).max())
    return widest / math.sqrt(2.0) / 5.0 or 1.0


def require_places(graph: Graph, *, linked: bool = False) -> None:
    """What looks at a whole map needs to know where every node is; what keeps paths apart, where those are
    that are `linked`."""
    missing = graph.unplaced if linked else graph.named(np.flatnonzero(np.isnan(graph.points).any(axis=1)))
    if missing:
        raise InputError(
            f"these nodes have no place: {', '.join(missing[:12])}{', …' if len(missing) > 12 else ''}",
            hint="give their coordinates, or use --method resilient or disjoint, which work without",
        )


def largest_proximity(graph: Graph, paths: tuple[NodePath, ...], separation: float) -> float | None:
    """The largest share of near nodes between any two of the paths, the earlier as primary."""
    return max((near_share(graph, a, b, separation) for a, b in combinations(paths, 2)), default=None)


def _alternatives(
    graph: Graph, primary: NodePath, request: PathRequest, separation: float
) -> tuple[tuple[NodePath, ...], tuple[float, ...], int]:
    count, limits = request.paths - 1, request.limits
    match request.method:
        case Method.GAP_DIV | Method.GAP_LOG:
            relaxation = Relaxation.DIVIDE if request.method is Method.GAP_DIV else Relaxation.LOGARITHM
            options = GapOptions(separation, relaxation, scaled=request.scaled)
            found = separated_paths(graph, primary, count, options, limits)
            steps = max((alternative.penalty_steps for alternative in found), default=0)
            return (primary, *(a.path for a in found)), tuple(a.penalty for a in found), steps
        case Method.KSP:
            near = least_proximate(graph, primary, count, k=request.k, separation=separation, limits=limits)
            return (primary, *near), (), 0
        case Method.DISJOINT:
            others = disjoint_paths(graph, primary, count, separation=separation, limits=limits)
            return (primary, *others), (), 0
        case Method.RESILIENT:
            best = most_resilient(graph, primary[0], primary[-1], request.paths, k=request.k, limits=limits)
            return best.paths, (), 0


def _shortfall(graph: Graph, paths: tuple[NodePath, ...], request: PathRequest) -> tuple[str, ...]:
    if len(paths) >= request.paths:
        return ()
    source, destination = graph.names[paths[0][0]], graph.names[paths[0][-1]]
    within = "" if request.limits == FREE else f" within {request.limits}"
    depth = f" among the {request.k} shortest" if request.method in (Method.KSP, Method.RESILIENT) else ""
    return (
        f"{request.paths} paths from {source!r} to {destination!r} were asked for and {len(paths)} "
        f"found{depth}{within}",
    )
