"""Measuring one point: CPU of a server's processes over the requests that a load generator made."""

import os
import resource
import time

# A point counts as quiet when other processes took at most so much of one core.
OTHERS_MAX = 0.1
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
CPUCLOCK_SCHED = 2

BARE = []
BROWSER = [
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "Accept-Language: en-GB,en;q=0.9,de;q=0.8",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Referer: http://www.example.org/section/page.html",
    "DNT: 1",
    "Sec-Fetch-Dest: document",
    "Sec-Fetch-Mode: navigate",
    "Sec-Fetch-Site: same-origin",
    "Upgrade-Insecure-Requests: 1",
    "Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=1",
]


def processes(root):
    """The process and all its descendants."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = stat(name)
        if fields:
            parents.setdefault(int(fields[1]), []).append(int(name))
    found, open_ones = [], [root]
    while open_ones:
        process = open_ones.pop()
        found.append(process)
        open_ones.extend(parents.get(process, []))
    return found


def stat(process):
    """The fields of /proc/N/stat after the command name: state, parent, …; None when it has ended."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def cpu_seconds(root):
    """User and system time spent so far by the process and its descendants. The sum is exact; /proc, which parts it, counts ticks."""
    user, system = 0.0, 0.0
    for process in processes(root):
        fields = stat(process)
        try:
            # The clock of a process: clock_getcpuclockid(3), which Python does not have.
            spent = time.clock_gettime(~process << 3 | CPUCLOCK_SCHED)
        except OSError:
            continue
        if fields:
            ticks = [int(fields[11]), int(fields[12])]
            share = ticks[0] / max(1, sum(ticks))
            user, system = user + spent * share, system + spent * (1 - share)
    return user, system


def resident_bytes(root):
    """Resident memory of the process and its descendants; shared pages count in each."""
    return sum(int(fields[21]) * PAGE for fields in map(stat, processes(root)) if fields)


def machine_cpu_seconds():
    """User and system time of everything on this machine."""
    with open("/proc/stat") as file:
        user, nice, system = map(int, file.readline().split()[1:4])
    return (user + nice + system) / TICK


def wait_until_quiet(limit_seconds):
    """Returns when others leave both cores alone for half a second, or after the limit."""
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline:
        before = machine_cpu_seconds()
        time.sleep(0.5)
        if machine_cpu_seconds() - before < 0.5 * OTHERS_MAX:
            return


def points(servers, ask):
    """Of each server CPU per hit in microseconds (all, user part), requests per second, the share of a core that it was busy while it was
    asked, and the cores that others took meanwhile. `ask` has a load generator run, and says of each server how many requests it made, and how
    many a second."""
    everything, children, started = machine_cpu_seconds(), children_cpu_seconds(), time.monotonic()
    before = [cpu_seconds(server.process.pid) for server in servers]
    answered = ask()
    spent = [tuple(map(float.__sub__, cpu_seconds(server.process.pid), then)) for server, then in zip(servers, before)]
    load_seconds = children_cpu_seconds() - children
    others = machine_cpu_seconds() - everything - load_seconds - sum(map(sum, spent))
    others = max(0.0, others / (time.monotonic() - started))
    return [
        {"us": sum(cpu) / requests * 1e6, "user_us": cpu[0] / requests * 1e6, "rate": rate, "busy": sum(cpu) / requests * rate, "others": others}
        for cpu, (requests, rate) in zip(spent, answered)
    ]


def point(server, ask):
    """The same of one server, where `ask` says it of that one."""
    (measured,) = points([server], lambda: [ask()])
    return measured


def children_cpu_seconds():
    """User and system time of the load generators that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
