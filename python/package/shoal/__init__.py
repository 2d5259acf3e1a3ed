"""Shoal's lab: what a cache, or several, would do with your requests.

Traces from access logs of many formats, the replacement policies that Shoal's proxy runs, simulators of one cache and of many,
miss-ratio curves, models of caches (:mod:`shoal.models`), and grids of all of these on every core (:class:`Sweep`), on NumPy arrays.

>>> import shoal
>>> trace = shoal.Trace.from_arrays([1, 2, 1, 3, 1], [10, 20, 10, 30, 10])
>>> cache = shoal.Simulator("lru", capacity_bytes=40)
>>> cache.run(trace).tolist()
[False, False, True, False, True]
>>> cache.counts.hit_ratio
0.4
"""

from . import models
from ._shoal import (
    ClusterCounts,
    Counts,
    Curve,
    Journal,
    Policy,
    Simulator,
    Sweep,
    Trace,
    WideAreaOutcome,
    __version__,
    miss_ratio_curve,
    plan,
    policies,
    simulate_cluster,
    simulate_wide_area,
)

__all__ = [
    "ClusterCounts",
    "Counts",
    "Curve",
    "Journal",
    "Policy",
    "Simulator",
    "Sweep",
    "Trace",
    "WideAreaOutcome",
    "__version__",
    "miss_ratio_curve",
    "models",
    "plan",
    "policies",
    "simulate_cluster",
    "simulate_wide_area",
]
