"""Times `shoal check` of 10,000 rules, 2,000 of them with a regular expression.

    python3 bench/many_rules.py --shoal target/release/shoal

The file also has 2,000 rules by host, 2,000 by a path with a star within, 2,000 redirects and 2,000 by method. It prints the
least time of several runs and the CPU time of each, which other programs on the machine change less.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

import network
import programs
import servers

RULES = 10_000

HEAD = """[[listen]]
address = "127.0.0.1:8080"
mode = "reverse"

[[site]]
hosts = ["*"]
upstreams = [{ url = "http://127.0.0.1:8000" }]
"""

KINDS = [
    'path_regex = "^/(shop|store)-{n}/[a-z0-9_-]+/item-[0-9]{{1,8}}\\\\.(html|json)$"\nlifetime_default = "10m"',
    'hosts = ["h{n}.example.org", "*.d{n}.example.org"]\npaths = ["/a/{n}/*", "/b/{n}"]\nquery_drop = ["utm_*", "fbclid"]',
    'paths = ["/static/{n}/*.css"]\nlifetime = "1h"\nresponse_set = ["X-Rule: {n}"]',
    'paths = ["/old/{n}"]\nredirect = "https://$host/new/{n}"\nredirect_status = 301',
    'methods = ["POST"]\npaths = ["/login/{n}*"]\nrequest_set = ["X-Number: {n}"]',
]


def main():
    network.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs.add_shoal(parser)
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    program = programs.checked(arguments.shoal)
    rules = (f"[[rule]]\n{KINDS[n % len(KINDS)].format(n=n)}\n" for n in range(RULES))
    with tempfile.TemporaryDirectory(prefix="rules-") as folder:
        file = servers.write(folder, "shoal.toml", "\n".join([HEAD, *rules]))
        print(f"{os.path.getsize(file) / 1e6:.1f} MB, {RULES} rules")
        walls, before = [], resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(arguments.runs):
            begun = time.perf_counter()
            done = subprocess.run([program, "check", file], cwd=folder, capture_output=True, text=True, check=False)
            walls.append(time.perf_counter() - begun)
            if done.returncode != 0:
                sys.exit(done.stderr[-2000:])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"least {min(walls):.2f} s, {cpu / arguments.runs:.2f} s of CPU, {after.ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
