"""CPU per miss: 8 KB that may not be stored, fetched for every request, Shoal against nginx."""

import statistics

import measure
import servers


def report(folder, options):
    """The table of misses. The origin is an nginx that shares its core with wrk."""
    origin = servers.start_miss_origin(folder)
    running = [origin]
    try:
        name = "nginx, no sendfile, open_file_cache"
        rivals = [
            servers.one_nginx(folder, origin.url, name, servers.NGINX_SETTINGS[name], "off"),
            servers.start_shoal(folder, origin.url, options.shoal),
        ]
        running += rivals
        points = {server.name: [] for server in rivals}
        for number in range(options.rounds):
            for server in rivals if number % 2 == 0 else rivals[::-1]:
                server.get("/8192")
                points[server.name].append(measure.point(server, 8192, measure.BARE, options.seconds, 64)["us"])
    finally:
        for server in running[::-1]:
            server.stop()
    best = statistics.median(points[name])
    lines = ["", "| 8 KB that may not be stored | µs of CPU a miss | misses per CPU-second, nginx = 1.00 |", "|---|---|---|"]
    for server, values in points.items():
        median = statistics.median(values)
        lines.append(f"| {server} | {median:.1f} | {best / median:.2f} |")
    return "\n".join(lines) + "\n"
