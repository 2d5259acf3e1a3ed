"""What the nodes of Shoal's cluster count: read before and after a measured part, to say why a node asked the origin."""

import collections
import json
import time
import urllib.parse
import urllib.request

PREFIXES = ("shoal_cluster_asks", "shoal_cluster_answers", "shoal_cluster_origin_again", "shoal_cluster_ask_micro", "shoal_cluster_purges")


def asked(ip, path, port=8002):
    """The text of a page of a node's admin listener."""
    with urllib.request.urlopen(f"http://{ip}:{port}{path}", timeout=10) as reply:
        return reply.read().decode()


def counters(ips):
    """The sums of the counters of all nodes, and of those with reasons by reason."""
    sums = collections.Counter()
    for ip in ips:
        for line in asked(ip, "/metrics").splitlines():
            if line.startswith(PREFIXES):
                name, _, value = line.rpartition(" ")
                sums[name] += float(value)
    return sums


def told(before, after):
    """The counters that have changed, as a text of one line each."""
    changed = {name: after[name] - before[name] for name in sorted(after) if after[name] != before[name]}
    return "\n".join(f"  {name} {value:.0f}" for name, value in changed.items())


def first_home(ip, url):
    """The address of the first home of a URL, as a node sees it."""
    nodes = json.loads(asked(ip, "/cluster/where?url=" + urllib.parse.quote("http://" + url, safe="")))["nodes"]
    return next(node["address"].rpartition(":")[0] for node in nodes if node["home"] == 1)


def metric(ip, name):
    """The sum of a metric of one node; None if the node does not answer."""
    try:
        rows = [line for line in asked(ip, "/metrics").splitlines() if line.startswith(name)]
    except OSError:
        return None
    return sum(float(row.rpartition(" ")[2]) for row in rows)


def holders(ip, url):
    """The number of nodes that hold the object of a URL, as a node finds them."""
    nodes = json.loads(asked(ip, "/cluster/where?url=" + urllib.parse.quote("http://" + url, safe="")))["nodes"]
    return sum(node["holds"] is True for node in nodes)


def wait_until_all_are_in(ips, limit=60):
    """Waits until each node sees all nodes as homes; the seconds that took."""
    begun = time.monotonic()
    while time.monotonic() - begun < limit:
        members = [json.loads(asked(ip, "/cluster"))["members"] for ip in ips]
        if all(sum(member["state"] == "in" for member in seen) == len(ips) for seen in members):
            return time.monotonic() - begun
        time.sleep(0.05)
    raise RuntimeError(f"the nodes have not found each other within {limit} s: {members}")
