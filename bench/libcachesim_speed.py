#!/usr/bin/env python3
"""Runs libCacheSim over the trace of docs/experiments/policies.md: miss ratios and speed, the best of some rounds.

    cargo bench -p shoal-lab --bench policies -- --trace policies.trace
    python3 -m pip install libcachesim==0.3.5 numpy
    python3 bench/libcachesim_speed.py policies.trace 100000 --rounds 3

The trace is 8 bytes a request, the object's number, little-endian. libCacheSim reads it as `oracleGeneral`, mapped into
memory, from a file beside it (24 bytes a request, 480 MB), which is removed at the end.
"""

import argparse
import os
import time

import libcachesim as lcs
import numpy as np

CACHES = {
    "fifo": lcs.FIFO,
    "clock": lcs.Clock,
    "sieve": lcs.Sieve,
    "lru": lcs.LRU,
    "slru": lcs.SLRU,
    "lfu_da": lcs.LFUDA,
    "s3_fifo": lcs.S3FIFO,
    "w_tinylfu": lcs.WTinyLFU,
    "gdsf": lcs.GDSF,
    "belady": lcs.Belady,
}


def convert(trace, path):
    """Writes the requests as time, object, size, next request for the object."""
    objects = np.fromfile(trace, dtype="<u8")
    order = np.argsort(objects, kind="stable")
    again = objects[order][1:] == objects[order][:-1]
    next_use = np.full(len(objects), -1, dtype=np.int64)
    next_use[order[:-1][again]] = order[1:][again] + 1
    records = np.zeros(len(objects), dtype=[("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
    records["time"] = np.arange(len(objects)) // 1000
    records["object"] = objects + 1  # 0 is no object to libCacheSim
    records["size"] = 1
    records["next"] = next_use
    records.tofile(path)
    return len(objects)


def run(name, path, requests, room):
    """Miss ratio, and million requests a second of CPU. The hash table has 2^18 buckets, which suits the room best."""
    reader = lcs.TraceReader(
        trace=path, trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE, reader_init_params=lcs.ReaderInitParam()
    )
    cache = CACHES[name](room, hashpower=18)
    start = time.process_time()
    miss_ratio, _ = cache.process_trace(reader)
    return miss_ratio, requests / (time.process_time() - start) / 1e6


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("trace")
    arguments.add_argument("room", type=int)
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    path = options.trace + ".oracleGeneral"
    requests = convert(options.trace, path)
    try:
        print("| policy | miss ratio | million requests a CPU-second |\n|---|---|---|")
        results = {name: [] for name in CACHES}
        for _ in range(options.rounds):
            for name in CACHES:
                results[name].append(run(name, path, requests, options.room))
        for name, rounds in results.items():
            print(f"| `{name}` | {rounds[0][0]:.4f} | {max(speed for _, speed in rounds):.1f} |")
    finally:
        os.remove(path)


if __name__ == "__main__":
    main()
