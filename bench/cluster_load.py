"""Traces for the bench of clusters, and the clients that replay them at several nodes and look at every byte of what they get."""

import asyncio
import csv
import dataclasses
import random
import subprocess
import time
import zlib

import cluster_origin

# Shares of the clients that each node serves, where they are skewed.
SKEWED = [0.70, 0.10, 0.10, 0.10]


@dataclasses.dataclass
class Asked:
    """One request of a trace."""

    client: str
    host: str
    path: str
    size: int

    @property
    def url(self):
        return self.host + self.path


@dataclasses.dataclass
class Outcome:
    """What became of one request."""

    asked: Asked
    node: int
    begun: float
    seconds: float
    failure: str = ""
    wrong: bool = False
    version: int = 0


def yardstick(path, limit):
    """The first requests of a trace that the yardstick's tracegen made."""
    with open(path, newline="") as file:
        rows = csv.DictReader(file)
        return [asked(row["client"], row["url"], int(row["size_bytes"])) for row, _ in zip(rows, range(limit))]


def boston(path, limit):
    """The first requests of the Boston trace that went to the network. The size of a URL is the first one seen."""
    unpacked = subprocess.Popen(["zstd", "-dc", path], stdout=subprocess.PIPE, text=True)
    sizes, found = {}, []
    for row in csv.DictReader(unpacked.stdout, delimiter="\t", quoting=csv.QUOTE_NONE):
        if len(found) == limit:
            break
        if row["browser_hit"] != "0" or not row["url"].startswith("http://") or int(row["bytes"]) <= 0:
            continue
        size = sizes.setdefault(row["url"], min(int(row["bytes"]), 4 << 20))
        host = row["url"].removeprefix("http://").split("/")[0].split(":")[0].lower()
        name = f"{zlib.crc32(row['url'].encode()):08x}{zlib.adler32(row['url'].encode()):08x}"
        found.append(Asked(row["machine"] + "-" + row["user"], host, f"/{name}_s{size}", size))
    unpacked.stdout.close()
    unpacked.terminate()
    unpacked.wait()
    return found


def zipf(limit, seed=1):
    """Requests of a Zipf-like popularity with alpha 0.8, for runs without a trace."""
    chance = random.Random(seed)
    objects = max(100, limit // 4)
    weights = [rank**-0.8 for rank in range(1, objects + 1)]
    picked = chance.choices(range(objects), weights, k=limit)
    sizes = [min(1 << 20, 64 + int(chance.lognormvariate(8, 1.3))) for _ in range(objects)]
    return [Asked(f"c{chance.randrange(500)}", f"h{one % 40}.example", f"/o{one}_s{sizes[one]}.gif", sizes[one]) for one in picked]


def of_one_size(limit, size, seed=1):
    """Requests for bodies of one size. Each object is asked for twice, at moments drawn at random."""
    chance = random.Random(seed)
    drawn = sorted((chance.random(), number % (limit // 2)) for number in range(limit // 2 * 2))
    return [Asked(f"c{chance.randrange(500)}", f"h{one % 40}.example", f"/o{one}_s{size}.gif", size) for _, one in drawn]


def asked(client, url, size):
    host, _, path = url.removeprefix("http://").partition("/")
    return Asked(client, host, "/" + path, size)


def node_of(client, nodes, skewed):
    """The node that a client is sent to: always the same one."""
    place = zlib.crc32(client.encode()) / 2**32
    if not skewed:
        return int(place * nodes)
    for node, share in enumerate(SKEWED[:nodes]):
        if place < share:
            return node
        place -= share
    return nodes - 1


class ClientConnection(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self):
        self.buffer, self.waiting, self.closed = bytearray(), None, False

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, why):
        self.closed = True
        if self.waiting and not self.waiting.done():
            self.waiting.set_exception(ConnectionError(str(why or "closed")))

    def data_received(self, data):
        self.buffer += data
        if self.waiting and not self.waiting.done() and (found := self.answer()):
            self.waiting.set_result(found)

    async def ask(self, request, limit):
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await asyncio.wait_for(self.waiting, limit)

    def answer(self):
        """The status and the body, once they are there. Bodies have lengths, since the origin gives them."""
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self.buffer[:end].decode("latin-1").lower().split("\r\n")
        length = next((int(line.split(":")[1]) for line in head if line.startswith("content-length:")), None)
        status = int(head[0].split()[1])
        if length is None:
            length = 0
            status = status if status != 200 else 0
        if len(self.buffer) < end + 4 + length:
            return None
        content = bytes(self.buffer[end + 4 : end + 4 + length])
        del self.buffer[: end + 4 + length]
        if "connection: close" in head:
            self.transport.close()
        return status, content


class Clients:
    """Connections to the nodes of one set-up."""

    def __init__(self, entries, absolute, limit=30.0):
        self.entries, self.absolute, self.limit = entries, absolute, limit
        self.idle = [[] for _ in entries]

    async def get(self, asked, node):
        """Asks once, on a kept connection if there is one, and once more if that was closed."""
        begun = time.monotonic()
        target = f"http://{asked.url}" if self.absolute else asked.path
        request = f"GET {target} HTTP/1.1\r\nHost: {asked.host}\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n".encode()
        outcome = Outcome(asked, node, begun, 0.0)
        try:
            while True:
                connection, kept = await self.connection(node)
                try:
                    status, content = await connection.ask(request, self.limit)
                    break
                except ConnectionError:
                    if not kept:
                        raise
                except BaseException:
                    connection.transport.abort()
                    raise
            if not connection.closed:
                self.idle[node].append(connection)
            outcome.seconds = time.monotonic() - begun
            judge(outcome, status, content)
        except (OSError, asyncio.TimeoutError) as why:
            outcome.failure = type(why).__name__
            outcome.seconds = time.monotonic() - begun
        return outcome

    async def connection(self, node):
        while self.idle[node]:
            connection = self.idle[node].pop()
            if not connection.closed:
                return connection, True
        opened = asyncio.get_running_loop().create_connection(ClientConnection, *self.entries[node])
        _, connection = await asyncio.wait_for(opened, self.limit)
        return connection, False

    def close(self):
        for connection in sum(self.idle, []):
            connection.transport.close()


def judge(outcome, status, content):
    """Whether an answer is one of the versions of what was asked for."""
    if status != 200:
        outcome.failure = f"status {status}"
        return
    asked = outcome.asked
    line = content.partition(b"\n")[0]
    version = line.rpartition(b" v")[2]
    outcome.version = int(version) if version.isdigit() and len(line) < asked.size else 0
    outcome.wrong = content != cluster_origin.body(asked.url, outcome.version, asked.size)


async def closed_loop(clients, requests, nodes, at_once):
    """Replays in order, as fast as the nodes answer."""
    left, outcomes = iter(zip(requests, nodes)), []

    async def one():
        for asked, node in left:
            outcomes.append(await clients.get(asked, node))

    await asyncio.gather(*(one() for _ in range(at_once)))
    return outcomes


async def open_loop(clients, requests, nodes, rate):
    """Replays at a rate, whatever the nodes do. Latency counts from when a request is sent."""
    begin, running, outcomes = time.monotonic(), set(), []
    for number, (asked, node) in enumerate(zip(requests, nodes)):
        if (early := begin + number / rate - time.monotonic()) > 0:
            await asyncio.sleep(early)
        if len(running) >= AT_ONCE_MAX:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.ensure_future(clients.get(asked, node))
        running.add(task)
        task.add_done_callback(lambda done: (running.discard(done), outcomes.append(done.result())))
    if running:
        await asyncio.wait(running)
    await asyncio.sleep(0)
    return outcomes


# Requests under way at once at most, so that a node that hangs is met by clients and not by all of them.
AT_ONCE_MAX = 400
