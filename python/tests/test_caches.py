"""Policies, simulators and curves, beside slow and obvious versions."""

from collections import OrderedDict

import numpy as np
import pytest

import shoal


def zipf(requests=20_000, objects=2_000, seed=1):
    weights = 1 / np.arange(1, objects + 1) ** 0.8
    random = np.random.default_rng(seed)
    return random.choice(objects, size=requests, p=weights / weights.sum()).astype(np.uint64)


def lru_hits(objects, room):
    cache, hits = OrderedDict(), []
    for key in objects:
        hits.append(key in cache)
        cache.pop(key, None)
        cache[key] = None
        if len(cache) > room:
            cache.popitem(last=False)
    return np.array(hits)


def test_lru_is_a_list_moved_to_front():
    objects = zipf()
    cache = shoal.Simulator("lru", capacity_objects=200)
    hits = cache.run(objects)
    assert hits.dtype == bool and np.array_equal(hits, lru_hits(objects.tolist(), 200))
    assert cache.counts.hits == hits.sum() and cache.counts.requests == len(objects)
    assert cache.counts.hit_ratio == pytest.approx(hits.mean())
    assert len(cache) == 200 and cache.memory_bytes > 0


def test_the_exact_curve_is_what_simulators_hit():
    objects = zipf()
    sizes = [10, 30, 100, 300, 1000]
    curve = shoal.miss_ratio_curve(objects, sizes=sizes)
    for size, ratio in zip(curve.sizes.tolist(), curve.hit_ratio):
        cache = shoal.Simulator("lru", capacity_objects=size)
        # distances are told to 1/32 of a doubling
        assert abs(cache.run(objects).mean() - ratio) < 0.01, size
    assert np.allclose(curve.miss_ratio, 1 - curve.hit_ratio) and not curve.hit_ratio_error.any()
    hit_ratio, _ = curve.at(100)
    assert hit_ratio == pytest.approx(curve.hit_ratio[2])
    assert curve.size_for(hit_ratio) == 100 and curve.size_for(1.1) is None


def test_sampled_curves_are_near_and_say_how_near():
    objects = zipf(100_000, 20_000)
    sizes = [500, 2000, 8000]
    exact = shoal.miss_ratio_curve(objects, sizes=sizes)
    sampled = shoal.miss_ratio_curve(objects, sizes=sizes, rate=0.2)
    watched = shoal.miss_ratio_curve(objects, sizes=sizes, watched=4000)
    for curve in (sampled, watched):
        assert (curve.hit_ratio_error > 0).all()
        assert np.abs(curve.hit_ratio - exact.hit_ratio).max() < 0.05
    sieve = shoal.miss_ratio_curve(objects, sizes=sizes, policy="sieve")
    cache = shoal.Simulator("sieve", capacity_bytes=2000)
    assert sieve.hit_ratio[1] == pytest.approx(cache.run(objects).mean())


def test_warm_up_does_not_count():
    objects = np.arange(100).repeat(2).reshape(100, 2).T.ravel()
    assert shoal.miss_ratio_curve(objects, sizes=[128], warm_up=100).hit_ratio[0] == 1
    share = 100 / len(objects)
    assert shoal.miss_ratio_curve(objects, sizes=[128], warm_up=share).hit_ratio[0] == 1
    with pytest.raises(ValueError, match="warm_up"):
        shoal.miss_ratio_curve(objects, warm_up=1.5)
    assert shoal.miss_ratio_curve(objects, sizes=[128]).hit_ratio[0] == 0.5


def test_who_knows_the_future_misses_least():
    objects = zipf()
    hits = {name: shoal.Simulator(name, capacity_objects=100).run(objects).sum()
            for name in shoal.policies() if not name.startswith("belady")}
    best = shoal.Simulator("belady", capacity_objects=100, future=objects).run(objects).sum()
    assert len(hits) >= 9 and best > max(hits.values())


def test_policies_name_their_victims():
    policy = shoal.Policy("lru")
    for key, weight in [(1, 10), (2, 20), (3, 30)]:
        policy.insert(key, weight)
    assert policy.hit(1) and not policy.hit(9)
    assert policy.weight == 60 and len(policy) == 3 and 2 in policy
    assert policy.evict() == (2, 20)
    assert policy.remove(3) and not policy.remove(3)
    assert policy.evict() == (1, 10) and policy.evict() is None
    policy.insert(1)
    with pytest.raises(KeyError):
        policy.insert(1)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="there are: belady, belady_size, clock"):
        shoal.Policy("lur")
    with pytest.raises(ValueError, match="future"):
        shoal.Simulator("belady", capacity_objects=1)
    with pytest.raises(ValueError, match="either"):
        shoal.Simulator("lru")
    with pytest.raises(ValueError, match="rate"):
        shoal.miss_ratio_curve([1], rate=0)
    with pytest.raises(ValueError, match="its own"):
        shoal.Simulator("lru", capacity_bytes=1).run(shoal.Trace.from_arrays([1]), [1])


def test_a_trace_and_its_arrays_are_the_same():
    trace = shoal.Trace.synthetic("requests=6000,seed=1,clients=8,hit-ratio=0.6")
    one = shoal.Simulator("gdsf", capacity_bytes=10**7).run(trace)
    two = shoal.Simulator("gdsf", capacity_bytes=10**7).run(trace.objects, trace.bytes)
    assert np.array_equal(one, two)


def test_clusters_and_wide_areas_find_more_together():
    trace = shoal.Trace.synthetic("requests=6000,seed=1,clients=8,hit-ratio=0.6")
    nodes = trace.clients % 4
    sizes = dict(node_frames=50, server_frames=50, warm_up=1000)
    direct = shoal.simulate_cluster("direct", nodes, trace.objects, **sizes)
    greedy = shoal.simulate_cluster("greedy", nodes, trace.objects, **sizes)
    assert direct.remote == 0 and greedy.disk < direct.disk
    assert greedy.local + greedy.remote + greedy.server + greedy.disk == greedy.requests == 5000
    uneven = shoal.simulate_cluster("greedy", nodes, trace.objects, node_frames=[10, 10, 10, 500])
    assert uneven.requests == 6000
    alone = shoal.simulate_wide_area(trace, "alone", fanout=4)
    together = shoal.simulate_wide_area(trace, "hierarchy", fanout=4)
    assert together.hits > alone.hits and len(together.arrivals) == 5
    for wrong in [dict(node_frames=[1, 2]), dict(node_frames=0), dict(node_frames=1, idle=64)]:
        with pytest.raises(ValueError, match="node_frames"):
            shoal.simulate_cluster("greedy", nodes, trace.objects, **wrong)
    with pytest.raises(ValueError, match="there are: direct"):
        shoal.simulate_cluster("gredy", nodes, trace.objects, node_frames=1)
    with pytest.raises(ValueError, match="writes"):
        shoal.simulate_cluster("greedy", nodes, trace.objects, node_frames=1, writes=[True])
    with pytest.raises(ValueError, match="levels"):
        shoal.simulate_wide_area(trace, "alone", levels_ms=[])
    with pytest.raises(ValueError, match="digests"):
        shoal.simulate_wide_area(trace, "summaries", hashes=0)


def test_front_ends_and_pagers():
    rng = np.random.default_rng(3)
    objects = (400 * rng.random(20_000) ** 2).astype(int)
    clients = rng.integers(0, 8, len(objects))
    sizes = {"node_frames": 60, "warm_up": 10_000, "outstanding": 200}
    found = {name: shoal.simulate_cluster(name, clients, objects, **sizes) for name in ["wrr", "lb", "lard"]}
    assert found["lard"].throughput > 1.5 * found["wrr"].throughput
    assert found["lb"].disk < found["wrr"].disk
    assert found["lard"].delay_ms < found["wrr"].delay_ms
    assert len(found["lb"].answered) == 8 and sum(found["lb"].answered) == 10_000
    pager = {"node_frames": 60, "idle": 4, "writes": rng.random(len(objects)) < 0.3, "lose": 2, "lose_after": 10_000}
    one = np.zeros(len(objects), int)
    lost = {
        name: shoal.simulate_cluster(name, one, objects, **pager).lost
        for name in ["pager", "pager_mirroring", "pager_parity", "pager_parity_logging"]
    }
    assert lost["pager"] > 0 and sum(lost.values()) == lost["pager"], lost
    waits = shoal.simulate_cluster("gms", clients, objects, node_frames=60)
    assert waits.throughput is None and waits.answered == []


def test_a_curve_tells_and_draws_itself():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    trace = shoal.Trace.synthetic("requests=6000,seed=1,clients=8,hit-ratio=0.6")
    curve = shoal.miss_ratio_curve(trace, policy="s3_fifo", rate=0.5)
    told = repr(curve)
    assert told.startswith("<shoal.Curve: 50 sizes from ") and f"knee at {curve.knee()} with" in told
    assert " bytes, " in told and " objects, " in repr(shoal.miss_ratio_curve([1, 2, 1]))
    figure, ax = pyplot.subplots()
    assert curve.plot(ax, label="sampled") is ax
    line, knee = ax.get_lines()
    assert np.allclose(line.get_ydata(), curve.hit_ratio) and line.get_label() == "sampled"
    assert knee.get_xdata()[0] == curve.knee() and len(ax.collections) == 1
    assert (ax.get_xscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "size of the cache, bytes", "hit ratio")
    pyplot.close(figure)
    with pytest.raises(ValueError, match="miss_ratio"):
        curve.plot(value="speed")


def test_the_plan_and_its_curve_have_one_knee(tmp_path):
    trace = shoal.Trace.synthetic("requests=6000,seed=1,clients=8,hit-ratio=0.6")
    log = tmp_path / "log.csv"
    trace.write(log)
    plan = shoal.plan(log, seed=1)
    curves = {name: shoal.Curve.of(points) for name, points in plan["ram"]["curves"].items()}
    assert curves["s3_fifo"].knee() == plan["ram"]["knee"]["bytes"]
    assert plan["choice"]["ram_bytes"] >= 16 << 20 and plan["cache_that_logged"]["hit_ratio"] is None
    assert shoal.plan(log, ram=64 << 20)["choice"]["ram_bytes"] == 64 << 20
    for wrong in [{"warm_up": 1}, {"miss_cost": 0}, {"ram_price": 1}, {"bad_lines": 2}, {"limit": 10}]:
        with pytest.raises(ValueError):
            shoal.plan(log, **wrong)
