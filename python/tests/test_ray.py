"""The example that spreads a sweep over a Ray cluster, on a local one of two nodes (`cargo xtask python --ray`)."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

import shoal

EXAMPLE = Path(__file__).parents[1] / "examples" / "ray_sweep.py"
SPEC = """
[trace.made]
synthetic = "requests=20000,seed=1,clients=40"
[[policy]]
trace = "made"
policy = ["lru", "sieve", "s3_fifo"]
cache = { from = 0.01, to = 0.3, factor = 2 }
[[cluster]]
trace = "made"
system = ["greedy", "gms"]
nodes = [4, 16]
node_frames = 100
[[gms]]
global_nodes = { from = 1, to = 40, step = 1 }
idle = 8
simulate = 20000
"""

pytestmark = pytest.mark.ray


@pytest.fixture
def cluster():
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster, second
    cluster.shutdown()


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(SPEC)
    return path


def start(cluster, spec, out):
    command = [sys.executable, EXAMPLE, spec, "--out", out, "--batch", "2", "--address", cluster.address]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def check(spec, out, alone):
    files = shoal.Sweep(spec).run(alone)
    assert len(files) == 3
    for file in files:
        assert Path(file).read_bytes() == (out / Path(file).name).read_bytes(), file


def test_two_nodes_compute_what_one_machine_does(cluster, spec, tmp_path):
    cluster, _ = cluster
    driver = start(cluster, spec, tmp_path / "out")
    said, _ = driver.communicate(timeout=240)
    assert driver.returncode == 0, said
    told = [line for line in said.splitlines() if line.endswith(" cells")]
    counts = [int(line.split()[1]) for line in told]
    assert len(counts) == 2, f"both nodes took part: {said}"
    assert sum(counts) == len(shoal.Sweep(spec))
    check(spec, tmp_path / "out", tmp_path / "alone")


def test_a_lost_node_and_a_killed_driver_cost_nothing(cluster, spec, tmp_path):
    cluster, second = cluster
    out = tmp_path / "out"
    journal = out / "journal"

    def computed():
        return journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0

    driver = start(cluster, spec, out)
    patience = time.monotonic() + 120
    while computed() < 6:
        assert driver.poll() is None and time.monotonic() < patience, driver.communicate()[0]
        time.sleep(0.01)
    cluster.remove_node(second, allow_graceful=False)
    while computed() < 10:
        assert driver.poll() is None and time.monotonic() < patience, driver.communicate()[0]
        time.sleep(0.01)
    driver.kill()
    driver.communicate()
    before = computed()
    assert before < len(shoal.Sweep(spec)), "it was killed before its end"
    driver = start(cluster, spec, out)
    said, _ = driver.communicate(timeout=240)
    assert driver.returncode == 0, said
    counts = [int(line.split()[1]) for line in said.splitlines() if line.endswith(" cells")]
    assert sum(counts) == len(shoal.Sweep(spec)) - before, "nothing is computed twice"
    check(spec, out, tmp_path / "alone")
