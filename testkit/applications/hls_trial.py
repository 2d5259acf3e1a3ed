"""Live video by HLS: a playlist that changes each second, segments that do not, many viewers, one fetch of each.

With ffmpeg the segments are a picture with a tone, and ffmpeg plays the stream too. Without it they are packets of a transport stream.
"""

import random
import re
import shutil
import threading
import time

from ground import call, must
from node import Node
from origin import Origin

VIEWERS, SECONDS, WINDOW, LENGTH = 12, 10, 4, 1.0


class Channel:
    """A live stream that began with the trial: a new segment each second, the last four in the playlist."""

    def __init__(self, segments):
        self.segments, self.begun = segments, time.monotonic()

    def newest(self):
        return int((time.monotonic() - self.begun) / LENGTH) + WINDOW

    def segment(self, number):
        return self.segments[number % len(self.segments)]

    def answer(self, asked):
        path = asked.path
        if path == "/live.m3u8":
            first = self.newest() - WINDOW
            lines = ["#EXTM3U", "#EXT-X-VERSION:3", f"#EXT-X-TARGETDURATION:{LENGTH:.0f}", f"#EXT-X-MEDIA-SEQUENCE:{first}"]
            for number in range(first, self.newest()):
                # Segments from a file are not continued one by the other.
                lines += ["#EXT-X-DISCONTINUITY", f"#EXTINF:{LENGTH:.3f},", f"live-{number}.ts"]
            return asked.whole(200, "\n".join([*lines, ""]).encode(), Content_Type="application/vnd.apple.mpegurl", Cache_Control="max-age=1")
        found = re.fullmatch(r"/live-(\d+)\.ts", path)
        if found and int(found[1]) < self.newest():
            return asked.whole(200, self.segment(int(found[1])), Content_Type="video/mp2t", Cache_Control="max-age=3600, immutable")
        return asked.whole(404, b"not yet")


class Viewer(threading.Thread):
    """A player: reads the playlist twice a second, and each new segment."""

    def __init__(self, node, channel, delay):
        super().__init__(daemon=True)
        self.visitor, self.channel, self.delay = node.visitor(), channel, delay
        self.seen, self.fault = [], None

    def run(self):
        time.sleep(self.delay)
        try:
            first = 0
            while time.monotonic() - self.channel.begun < SECONDS:
                text = self.visitor.get("/live.m3u8").text
                now = int(re.search(r"MEDIA-SEQUENCE:(\d+)", text)[1])
                must(now >= first, f"the playlist goes forward, not from {first} to {now}")
                first = now
                for number in map(int, re.findall(r"live-(\d+)\.ts", text)):
                    if number not in self.seen:
                        must(self.visitor.get(f"/live-{number}.ts").body == self.channel.segment(number), f"segment {number} is whole")
                        self.seen.append(number)
                time.sleep(0.5)
        except Exception as fault:
            self.fault = fault


def trial(ground):
    has_ffmpeg = shutil.which("ffmpeg") is not None
    channel = Channel(pictures(ground) if has_ffmpeg else packets())
    origin = Origin(channel.answer)
    ground.ending.callback(origin.stop)
    node = Node(ground, "HLS video", [origin.port])
    ground.ending.callback(node.stop)
    channel.begun = time.monotonic()
    viewers = [Viewer(node, channel, number * 0.3) for number in range(VIEWERS)]
    for viewer in viewers:
        viewer.start()
    time.sleep(SECONDS / 2)
    node.upgrade()
    for viewer in viewers:
        viewer.join(timeout=60)
        if viewer.fault:
            raise viewer.fault
        expected = list(range(viewer.seen[0], viewer.seen[-1] + 1))
        must(viewer.seen == expected and len(expected) >= 5, f"a viewer sees all segments in order: {viewer.seen}")
    counts = {path: count for path, count in origin.counts.items() if path.endswith(".ts")}
    # A segment that the old process was fetching may be fetched by the new one again.
    must(sum(counts.values()) <= len(counts) + 2, f"each segment is fetched once: {counts}")
    playlists = origin.count("/live.m3u8")
    must(playlists <= 2 * SECONDS + 4, f"{playlists} fetches of the playlist in {SECONDS} s")
    too_early(node, channel)
    ranges(node, channel)
    used = f"{VIEWERS} viewers for {SECONDS} s, an upgrade"
    if has_ffmpeg:
        frames = call("ffmpeg", "-hide_banner", "-loglevel", "error", "-ca_file", ground.ca, "-tls_verify", "1",
                      "-i", f"{node.url}/live.m3u8", "-t", "4", "-map", "0:v", "-f", "framemd5", "-", seconds=60)
        shown = sum(not line.startswith("#") for line in frames.splitlines())
        must(shown >= 90, f"ffmpeg shows {shown} pictures in 4 s")
        used += ", ffmpeg"
    return [["HLS video, live", used, *node.share().row()]]


def too_early(node, channel):
    """A player that asks for a segment before it is there gets it soon after it is."""
    number, visitor = channel.newest() + 1, node.visitor()
    visitor.get(f"/live-{number}.ts", expect=404)
    while channel.newest() <= number:
        time.sleep(0.05)
    # `cache.negative_ttl` is a second.
    time.sleep(1.2)
    must(visitor.get(f"/live-{number}.ts").body == channel.segment(number), "the segment is there a second later")


def ranges(node, channel):
    """Parts of a segment, as players of fragmented MP4 ask for them."""
    number = channel.newest() - 1
    whole, visitor = channel.segment(number), node.visitor()
    for first, last in ((0, 999), (1000, 1999), (500, 1500)):
        part = visitor.get(f"/live-{number}.ts", expect=206, Range=f"bytes={first}-{last}")
        must(part.body == whole[first:last + 1], f"bytes {first} to {last}")


def packets():
    """Ten segments of 200 packets: sync byte, a packet id, bytes."""
    made = random.Random(5)
    return [b"".join(b"\x47\x01\x00\x10" + made.randbytes(184) for _ in range(200)) for _ in range(10)]


def pictures(ground):
    """Ten segments of a test picture with a tone."""
    call("ffmpeg", "-hide_banner", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25", "-f", "lavfi", "-i",
         "sine=frequency=440", "-t", "10", "-c:v", "mpeg2video", "-g", "25", "-c:a", "mp2", "-f", "segment", "-segment_time", "1",
         ground.folder / "segment-%02d.ts")
    return [path.read_bytes() for path in sorted(ground.folder.glob("segment-*.ts"))]
