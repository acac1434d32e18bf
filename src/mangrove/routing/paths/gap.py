"""GAP: an alternative path that keeps geographically apart from given paths (thesis §5.3.2, figure 5-2).

Every link near a path to avoid is made heavier by a penalty, and the shortest path is searched again. When
the path found breaks a constraint the penalty is relaxed, by division (`gap-div`) or by taking its
logarithm (`gap-log`), and the search is repeated, until the penalty is too small to matter.

How the thesis is read here (the published validation cases hold with this reading and not with others):

- The source and the destination never make a link near: they lie on every path between them.
- A waypoint of a fibre makes its link near as an end of the link does.
- Distance scaling ((r - d) / r) takes d from the nearest *near* end of the link.
- The maximum delay is checked against the true length, not the penalised one.
- The penalty starts at W0, the sum of all weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from mangrove.errors import InputError
from mangrove.routing.network.geography import Floats, positions
from mangrove.routing.network.graph import Graph, NodePath
from mangrove.routing.network.proximity import distance_from, distance_from_paths
from mangrove.routing.paths.path_limits import FREE, PathLimits
from mangrove.routing.paths.penalty import PenalisedSearch, Relaxation, penalties


class GapOptions(msgspec.Struct, frozen=True):
    """Parameters of the search; the defaults are those of the thesis's validation."""

    separation: float
    relaxation: Relaxation = Relaxation.DIVIDE
    divisor: float = 10.0
    scaled: bool = True  # penalty by distance (§5.3.2, last equation); False is the flat penalty

    def __post_init__(self) -> None:
        if not (self.separation > 0 and math.isfinite(self.separation)):
            raise InputError(f"the separation must be a positive distance, not {self.separation}")
        if not self.divisor > 1:
            raise InputError(f"the divisor of the penalty must be above 1, not {self.divisor}")


class Alternative(msgspec.Struct, frozen=True):
    """A path found, with the penalty under which it was found."""

    path: NodePath
    penalty: float
    penalty_steps: int  # penalised searches made; 1 means that the initial penalty W0 was enough


def alternative_path(
    graph: Graph, avoid: Sequence[NodePath], options: GapOptions, limits: PathLimits = FREE
) -> Alternative | None:
    """A path that keeps apart from all those of `avoid`; None when no search finds one.

    The primary path may come from anywhere: it need not be a shortest path. A path of `avoid` is never
    returned.
    """
    share = nearness(graph, avoid, options)
    search = PenalisedSearch(graph, avoid[0][0], avoid[0][-1], limits)
    steps = 0
    for steps, penalty in enumerate(penalties(graph, options.relaxation, options.divisor), start=1):
        path = search.path(graph.weights + share * penalty)
        if search.acceptable(path, avoid):
            return Alternative(path, penalty, steps)
    path = search.any_other(avoid, share, options.separation)
    return Alternative(path, 0.0, steps + 1) if path else None


def nearness(graph: Graph, avoid: Sequence[NodePath], options: GapOptions) -> Floats:
    """The share of the penalty that each link bears, from 0 (far) to 1 (touches a path to avoid)."""
    distance = distance_from_paths(graph, avoid)
    share = np.maximum(1.0 - distance / options.separation, 0.0)
    if not options.scaled:
        share = (distance < options.separation).astype(np.float64)
    share[[avoid[0][0], avoid[0][-1]]] = 0.0
    links: Floats = np.maximum(share[graph.ends[:, 0]], share[graph.ends[:, 1]])
    for link, waypoints in enumerate(graph.via if graph.has_waypoints else ()):
        if waypoints:
            away = distance_from(graph, avoid, positions(graph.plane, np.array(waypoints)))
            nearest = max(1.0 - float(away.min()) / options.separation, 0.0)
            links[link] = max(links[link], nearest if options.scaled or not nearest else 1.0)
    for path in avoid:
        links[graph.path_links(path)] = (
            1.0  # also a direct link between the ends, near to neither of its ends
        )
    return links


def separated_paths(
    graph: Graph, primary: NodePath, count: int, options: GapOptions, limits: PathLimits = FREE
) -> list[Alternative]:
    """Up to `count` alternatives, each apart from the primary and from all alternatives before it."""
    found: list[Alternative] = []
    while len(found) < count:
        known = [primary, *(alternative.path for alternative in found)]
        following = alternative_path(graph, known, options, limits)
        if following is None:
            break
        found.append(following)
    return found
