"""Traces: read, made, taken from arrays, written and told."""

import gzip

import numpy as np
import pytest

import shoal

SQUID = """\
1000000001.500     10 alice TCP_MISS/200 1000 GET http://a.example/1 - DIRECT/- text/html
1000000002.500     10 bob TCP_HIT/200 2000 GET http://b.example/2 - NONE/- text/html
1000000003.500     10 alice TCP_MISS/404 300 GET http://a.example/no - DIRECT/- text/html
no line of a log
1000000004.500     10 bob TCP_HIT/200 1000 GET http://a.example/1 - NONE/- text/html
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress(SQUID.encode()))
    return path


def test_a_log_is_read(log):
    trace = shoal.Trace.read(log, filter=["status200"])
    assert len(trace) == 3
    assert trace.bytes.tolist() == [1000, 2000, 1000]
    assert trace.objects.tolist() == [0, 1, 0] and trace.objects.dtype == np.uint32
    assert trace.time_ms.tolist() == [1000000001500, 1000000002500, 1000000004500]
    assert trace.url(1) == "http://b.example/2"
    assert [trace.client(client) for client in trace.clients] == ["alice", "bob", "bob"]
    assert (trace.object_count, trace.client_count) == (2, 2)
    reading = trace.reading
    assert (reading["format"], reading["compression"], reading["bad"]) == ("squid", "gzip", 1)
    assert len(shoal.Trace.read(log, limit=1)) == 1


def test_what_cannot_be_read_is_told(log, tmp_path):
    with pytest.raises(OSError, match="absent"):
        shoal.Trace.read(tmp_path / "absent")
    with pytest.raises(OSError, match="line 4"):
        shoal.Trace.read(log, strict=True)
    with pytest.raises(ValueError, match="papper"):
        shoal.Trace.read(log, filter=["papper"])
    with pytest.raises(ValueError, match="squit"):
        shoal.Trace.read(log, format="squit")
    with pytest.raises(IndexError):
        shoal.Trace.read(log).url(99)


@pytest.mark.parametrize("ending", ["shoal", "csv", "csv.gz", "oracleGeneral"])
def test_what_is_written_is_read_again(tmp_path, ending):
    trace = shoal.Trace.from_arrays(
        [7, 8, 7], [10, 20, 10], times_ms=[1000, 2000, 4000], clients=[3, 4, 3]
    )
    path = tmp_path / f"trace.{ending}"
    trace.write(path)
    again = shoal.Trace.read(path)
    assert again.objects.tolist() == [0, 1, 0]
    assert again.bytes.tolist() == [10, 20, 10]
    assert np.diff(again.time_ms).tolist() == [1000, 2000]
    with pytest.raises(ValueError, match="ending"):
        trace.write(tmp_path / "trace.docx")


def test_parquet_is_what_others_read(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    shoal.Trace.from_arrays([7, 8], [10, 20], times_ms=[1, 2]).write(tmp_path / "t.parquet")
    table = parquet.read_table(tmp_path / "t.parquet").to_pydict()
    assert table["url"] == ["7", "8"] and table["bytes"] == [10, 20]


def test_arrays_are_taken_with_care():
    objects = np.array([5, 6, 5], dtype=np.int32)
    trace = shoal.Trace.from_arrays(objects)
    assert trace.bytes.tolist() == [1, 1, 1] and trace.client_count == 0
    for wrong, error in [([-1], ValueError), ([1.5], TypeError), ([[1]], ValueError), (["a"], TypeError)]:
        with pytest.raises(error, match="objects"):
            shoal.Trace.from_arrays(wrong)
    with pytest.raises(ValueError, match="bytes: 1 values where there are 3"):
        shoal.Trace.from_arrays(objects, [1])
    assert len(shoal.Trace.from_arrays([])) == 0
    assert len(shoal.Trace.from_arrays(np.arange(10)[::2], np.arange(10)[1::2])) == 5


def test_made_traffic_is_the_same_each_time():
    values = "requests=6000,seed=1,clients=8,hit-ratio=0.6"
    one, two = shoal.Trace.synthetic(values), shoal.Trace.synthetic(values)
    assert np.array_equal(one.objects, two.objects) and len(one) == 6000
    with pytest.raises(ValueError, match="request"):
        shoal.Trace.synthetic("request=1")


def test_statistics_are_those_of_the_requests():
    trace = shoal.Trace.synthetic("requests=6000,seed=1,clients=8,hit-ratio=0.6")
    found = trace.statistics()
    assert found["requests"] == 6000 and found["bytes"] == int(trace.bytes.sum())
    repeats = 1 - trace.object_count / len(trace)
    assert found["infinite_cache"]["identity"]["hit_ratio"] == pytest.approx(repeats)
    with pytest.raises(ValueError, match="no requests"):
        shoal.Trace.from_arrays([]).statistics()
