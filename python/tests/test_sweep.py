"""Sweeps: computed, cell by cell, gone on with."""

from pathlib import Path

import pytest

import shoal

EXAMPLE = Path(__file__).parents[2] / "docs" / "sweep.toml"
SPEC = """
[trace.made]
synthetic = "requests=6000,seed=1,clients=8,hit-ratio=0.6"
[[policy]]
trace = "made"
policy = ["lru", "sieve"]
cache = [0.1, "1 MB"]
[[gms]]
global_nodes = [1, 6]
idle = 8
"""


def test_cells_are_what_the_lab_says(tmp_path):
    sweep = shoal.Sweep.parse(SPEC)
    assert len(sweep) == 6
    assert sweep.cell(1) == {"kind": "policy", "trace": "made", "policy": "lru", "cache": "1 MB", "warm_up": 0.5}
    answer = sweep.compute(1)
    trace = shoal.Trace.synthetic("requests=6000,seed=1,clients=8,hit-ratio=0.6")
    hits = shoal.Simulator("lru", capacity_bytes=10**6).run(trace)[3000:]
    assert answer["hits"] == hits.sum() and answer["refused"] is None
    solved = shoal.models.Gms.balanced(6, 8).solve()
    assert sweep.compute(5)["response_ms"] == pytest.approx(solved.response_seconds * 1e3)
    with pytest.raises(IndexError):
        sweep.compute(6)


def test_a_sweep_is_computed_once_however_it_is_shared_out(tmp_path):
    sweep = shoal.Sweep.parse(SPEC)
    files = sweep.run(tmp_path / "whole")
    with shoal.Journal(sweep, tmp_path / "parts") as journal:
        assert journal.due() == list(range(6))
        for number in [5, 0, 2]:
            journal.add(number, sweep.compute(number))
        with pytest.raises(RuntimeError, match="another sweep"):
            shoal.Journal(sweep, tmp_path / "parts")
        with pytest.raises(KeyError, match="hits"):
            journal.add(1, {"cache_bytes": 1, "requests": 1})
    with shoal.Journal(sweep, tmp_path / "parts") as journal:
        assert journal.due() == [1, 3, 4]
        for number in journal.due():
            journal.add(number, sweep.compute(number))
        parts = journal.write_tables()
    with pytest.raises(ValueError, match="closed"):
        journal.due()
    for whole, part in zip(files, parts, strict=True):
        assert Path(whole).read_bytes() == Path(part).read_bytes()


def test_the_tables_are_what_others_read(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    files = shoal.Sweep(EXAMPLE).run(tmp_path)
    tables = {Path(file).stem: parquet.read_table(file) for file in files}
    assert sorted(tables) == ["cluster", "gms", "pgms", "policy", "wan", "wide_area"]
    table = tables["policy"].to_pydict()
    assert table["policy"][0] == "lru" and len(table["policy"]) == 32
    ratios = [hits / requests for hits, requests in zip(table["hits"], table["requests"])]
    assert table["hit_ratio"] == pytest.approx(ratios)
    assert tables["cluster"].column("chances").null_count == 4


def test_mistakes_are_told_with_their_lines(tmp_path):
    with pytest.raises(ValueError, match=r"specification:2:1: nodes: \[\[gms\]\] has no such parameter"):
        shoal.Sweep.parse("[[gms]]\nnodes = 3\n")
    spec = tmp_path / "s.toml"
    spec.write_text("[[gms]]\nidle = 1\nglobal_nodes = -1\n")
    with pytest.raises(ValueError, match="s.toml:3:16"):
        shoal.Sweep(spec)
    with pytest.raises(OSError, match="absent"):
        shoal.Sweep(tmp_path / "absent.toml")
