"""Models, against what the papers print and what can be worked out by hand."""

import numpy as np
import pytest

import shoal
from shoal import models


def test_the_queueing_model_by_hand():
    # one node and one server without putpages: nothing waits, X = 1 / (Z + D)
    one = models.Gms(1, [1.0], demand_us=194, think_ms=5, putpages=0)
    for method in ["schweitzer", "linearizer", "exact"]:
        solution = one.solve(method)
        assert solution.response_seconds == pytest.approx(194e-6)
        assert solution.getpages_per_second == pytest.approx(1 / 5.194e-3)
        assert solution.utilizations[0] == pytest.approx(194e-6 / 5.194e-3)
    measured = one.simulate(20_000, constant=True)
    assert abs(measured.response_seconds - 194e-6) < 1e-9


def test_approximations_are_near_the_exact_solution():
    # section 3.3.2: eight balanced servers for sixty global nodes
    network = models.Gms.balanced(60, 8)
    exact = network.solve("exact").response_seconds
    assert network.solve("linearizer").response_seconds == pytest.approx(exact, rel=0.01)
    found = network.simulate(50_000, constant=False)
    assert abs(found.response_seconds - exact) < max(3 * found.response_half_width, 0.05 * exact)
    skewed = models.Gms.skewed(24, 11, 0.75).solve()
    assert skewed.utilizations[0] > 0.9 and skewed.queues.sum() > 1
    assert skewed.responses[0] > skewed.responses[1]


def test_prefetching_by_idle_nodes():
    render = models.Pgms("render", idle=4, scale=32)
    alone = models.Pgms("render", idle=0, scale=32).simulate("none", hinted=0)
    gms, pgms = render.simulate("none", hinted=0), render.simulate()
    # section 4.4.4: idle memory helps, and prefetching into it helps more
    assert pgms.elapsed_seconds < gms.elapsed_seconds < alone.elapsed_seconds
    assert alone.elapsed_seconds / pgms.elapsed_seconds > 2
    assert gms.disk_to_global == 0 and pgms.disk_to_global > 0
    parts = pgms.user_seconds + pgms.system_seconds + pgms.stall_seconds
    assert parts == pytest.approx(pgms.elapsed_seconds, rel=1e-6)
    assert render.simulate(hinted=0.5).elapsed_seconds > pgms.elapsed_seconds
    assert render.simulate().elapsed_seconds == pgms.elapsed_seconds
    assert "waiting" in repr(pgms)


def test_prefetching_for_pages_of_ones_own():
    pages = np.random.default_rng(2).permutation(400)
    given = models.Pgms(pages, idle=2, frames=64, rounds=2, computing_us=1000)
    assert (given.references, given.pages) == (800, 400)
    assert given.simulate().user_seconds == pytest.approx(0.8)
    assert given.simulate().elapsed_seconds < given.simulate("none", hinted=0).elapsed_seconds
    for wrong in [{"program": "rendr"}, {"scale": 0}, {"rounds": 0}, {"idle": -1}, {"disk_ms": 0}, {"program": []}]:
        with pytest.raises((ValueError, OverflowError)):
            models.Pgms(**{"program": "render", **wrong})
    with pytest.raises(ValueError):
        models.Pgms("render", frames=1).simulate()
    for wrong in [{"prefetch": "ld"}, {"hinted": 2}, {"hinted": 0.5, "wrong": 0.5}, {"wrong": float("nan")}]:
        with pytest.raises(ValueError):
            given.simulate(**wrong)


def test_the_wide_area_model_as_printed():
    # chapter 5, Table 5.4: with 500,000 clients a shared cache hits H_N of all requests, 0.86 s in a hierarchy
    wan = models.Wan()
    schemes = wan.schemes(500e3, [50, 10])
    assert round(schemes["hierarchy"]["latency_seconds"], 2) == 0.86
    assert round(schemes["hashed"]["latency_seconds"], 2) == 0.88
    rates = wan.cacheable_hit_rate([0, 500, 5e4, 5e6, 5e8])
    assert rates[0] == 0 and (np.diff(rates) > 0).all() and rates[-1] < 1
    assert np.allclose(wan.hit_rate([500, 5e6]), 0.6 * wan.cacheable_hit_rate([500, 5e6]))
    shared = wan.shared(5e6)
    assert shared.cacheable_hit_rate == pytest.approx(rates[3])
    assert shared.popular_hits + shared.unpopular_hits == pytest.approx(rates[3])
    clients = wan.population_for(0.9)
    assert wan.cacheable_hit_rate(clients)[0] == pytest.approx(0.9, abs=1e-3)
    assert wan.finite_hit_rate([5e4], 1e11)[0] < wan.cacheable_hit_rate([5e4])[0]
    assert models.Wan(popular_days=0, unpopular_days=0).hit_rate([5e6])[0] == 0


def test_few_documents_by_hand():
    # two documents, equally popular, each asked for N times a day and changed once a day: r / (r + 1)
    wan = models.Wan(alpha=0, documents=2, popular=2, requests_per_day=2, popular_days=1)
    assert wan.cacheable_hit_rate([1, 9]).tolist() == pytest.approx([0.5, 0.9])


def test_file_caches():
    population = models.Population.specweb99(25)
    assert len(population) == 900 and population.probabilities.sum() == pytest.approx(1)
    sizes = np.array([0.1, 0.3, 1.0]) * population.total_bytes
    for model in (models.kant_won, models.characteristic_time):
        found = model(population, sizes)
        assert (np.diff(found.hit_ratio) > 0).all() and found.hit_ratio[-1] == pytest.approx(1)
        assert found.bytes_read[-1] == pytest.approx(0, abs=1e-6)
    assert models.kant_won(population, sizes[0], literal=True).transfers.shape == (1,)
    # two files of one byte each, room for one: the more popular one stays
    two = models.Population([3, 1], [1, 1])
    assert models.kant_won(two, 1, reuse=0).hit_ratio.tolist() == [0.75]


def test_the_characteristic_time_is_near_a_simulation():
    population = models.Population.zipf(2000, 0.8, sigma=0)
    random = np.random.default_rng(2)
    objects = random.choice(2000, size=200_000, p=population.probabilities)
    cache = shoal.Simulator("lru", capacity_objects=200)
    hits = cache.run(objects)[50_000:]
    model = models.characteristic_time(population, 200 * population.bytes[0])
    assert model.hit_ratio[0] == pytest.approx(hits.mean(), abs=0.01)
    again = models.Population.of_trace(shoal.Trace.from_arrays(objects))
    assert len(again) <= 2000


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: models.Gms(5, [0.5, 0.4]), "sum to 0.9"),
        (lambda: models.Gms(5, [1.0], putpage_rate=1e9), "putpages alone"),
        (lambda: models.Gms(5, [0.5, 0.5], demand_us=[1, 2, 3]), "one for each"),
        (lambda: models.Gms.balanced(5, 5, application="oo8"), "oo8"),
        (lambda: models.Gms.balanced(5, 5).solve("fast"), "fast"),
        (lambda: models.Wan(alpha=-1), "alpha"),
        (lambda: models.Wan(documents=0), "documents"),
        (lambda: models.Wan(rates="quick"), "rates"),
        (lambda: models.Wan(change="pareto"), "change"),
        (lambda: models.Wan().hit_rate([-1]), "population"),
        (lambda: models.Wan().hit_rate([float("nan")]), "population"),
        (lambda: models.Population([0], [1]), "probabilities"),
        (lambda: models.kant_won(models.Population([1], [1]), -1), "no size"),
        (lambda: models.Population.zipf(0), "objects"),
    ],
)
def test_what_makes_no_sense_is_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()
