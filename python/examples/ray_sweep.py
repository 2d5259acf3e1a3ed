"""A sweep over a Ray cluster, for when one machine is not enough.

    ray start --head                                   # on the first machine
    ray start --address FIRST:6379                     # on each other one
    python ray_sweep.py sweep.toml --out results       # on any of them

Each machine has the same version of this package, and finds the traces under the same paths. Cells of one trace go out together, so that a
worker reads the trace once. The driver alone writes: answers are kept in the journal as they come, so that a driver that was
stopped goes on where it was, and what a lost machine was computing Ray has computed by another. The tables are the very bytes that
`shoal lab sweep sweep.toml --out results` writes.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import ray

import shoal

# Sweeps that a worker has read, by their text, with the trace that was used last.
KEPT: dict[str, shoal.Sweep] = {}


@ray.remote(max_retries=-1)
def compute(text: str, folder: str, version: str, cells: list[int]):
    """Answers some cells on whatever machine this is."""
    if version != shoal.__version__:
        raise RuntimeError(f"this machine has shoal {shoal.__version__}, the driver {version}")
    if text not in KEPT:
        KEPT.clear()
        KEPT[text] = shoal.Sweep.parse(text, folder)
    sweep = KEPT[text]
    node = ray.get_runtime_context().get_node_id()
    return node, [(cell, sweep.compute(cell)) for cell in cells]


def batches(sweep: shoal.Sweep, due: list[int], size: int) -> list[list[int]]:
    """Cells in batches, each of one trace."""
    by_trace: dict[object, list[int]] = {}
    for cell in due:
        by_trace.setdefault(sweep.cell(cell).get("trace"), []).append(cell)
    return [cells[at : at + size] for cells in by_trace.values() for at in range(0, len(cells), size)]


def run(spec: Path, out: Path, size: int) -> Counter[str]:
    """Computes what is due, and tells how many cells each machine computed."""
    text, folder = spec.read_text(), str(spec.resolve().parent)
    sweep = shoal.Sweep.parse(text, folder)
    shared = ray.put(text)
    done: Counter[str] = Counter()
    with shoal.Journal(sweep, out) as journal:
        waiting = batches(sweep, journal.due(), size)
        running: list[ray.ObjectRef] = []
        while waiting or running:
            # twice as many as there are cores, so that none waits for the driver
            room = int(2 * ray.cluster_resources().get("CPU", 1)) - len(running)
            for cells in waiting[: max(room, 0)]:
                running.append(compute.remote(shared, folder, shoal.__version__, cells))
            waiting = waiting[max(room, 0) :]
            finished, running = ray.wait(running)
            for node, answers in ray.get(finished):
                for cell, answer in answers:
                    journal.add(cell, answer)
                done[node] += len(answers)
        journal.write_tables()
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description="Compute a sweep over a Ray cluster.")
    parser.add_argument("spec", type=Path, help="the specification (docs/SWEEPS.md)")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and journal")
    parser.add_argument("--batch", type=int, default=8, help="cells that go out together")
    parser.add_argument("--address", default="auto", help="the cluster's address; one on this machine by default")
    options = parser.parse_args()
    ray.init(address=options.address, log_to_driver=False)
    for node, cells in sorted(run(options.spec, options.out, options.batch).items()):
        print(f"{node[:8]}: {cells} cells")


if __name__ == "__main__":
    main()
