// Documents of a node that does not exist: busy, empty, one with hostile text, one with ten
// thousand sites. Each is a function of the second, so that a run can be repeated.

const SOURCES = ['ram', 'disk', 'neighbourhood', 'peer', 'origin', 'stale', 'error', 'tunnel']
const GIB = 1024 ** 3
const MIB = 1024 ** 2

/** Text that a client, an origin or a name server may choose. */
export const HOSTILE = {
  script: '<script>window.broken = true</script><img src=x onerror="window.broken=true">',
  turned: 'safe.example/\u202Egpj.exe\u2066\u0007\u001b[31m',
  long: `http://long.example/${'a/very/long/path/'.repeat(500)}?end=here`,
  attribute: `"><svg onload="window.broken=true">' onmouseover='window.broken=true`,
}

/** A repeatable number in 0 to 1 for any key. */
export function chance(key) {
  let hash = 2166136261
  for (const character of String(key)) hash = Math.imul(hash ^ character.codePointAt(0), 16777619)
  hash ^= hash >>> 15
  return ((Math.imul(hash, 2246822519) ^ (hash >>> 13)) >>> 0) / 2 ** 32
}

const wave = (tick, key, depth = 0.12) => 1 + depth * Math.sin(tick / 9 + chance(key) * 6.28) + depth * 0.6 * (chance(`${key} ${tick}`) - 0.5)

/** The documents of one kind of node: `busy`, `empty`, `hostile` or `many`. */
export function documents(kind) {
  const make = { now, reasons, disk, size, origins, objects, cluster, log }
  const of = (page, tick, query) => {
    const document = make[page](kind === 'empty' ? 0 : tick + 1, kind, query)
    return kind === 'empty' ? emptied(page, document) : document
  }
  return { of, history: (seconds, points, unixS) => history(kind, seconds, points, unixS), line: tick => logLine(tick, kind) }
}

function now(tick, kind, { site = '' }) {
  const weights = { ram: 5200, disk: 1480, neighbourhood: 610, peer: 390, origin: 840, stale: 46, error: 7, tunnel: 58 }
  const times = { ram: [31, 140], disk: [420, 3900], neighbourhood: [44, 210], peer: [790, 5200], origin: [21000, 184000], stale: [38, 160], error: [1100, 30000000], tunnel: [9000, 88000] }
  const sizes = { ram: 24000, disk: 92000, neighbourhood: 30000, peer: 61000, origin: 71000, stale: 22000, error: 500, tunnel: 54000 }
  const answers = SOURCES.map(source => {
    const each = weights[source] * wave(tick, source)
    const [p50_us, p99_us] = times[source].map(time => Math.round(time * wave(tick, `${source}p`, 0.05)))
    return { source, ...(['neighbourhood', 'peer'].includes(source) || site ? { p50_us: null, p99_us: null } : { p50_us, p99_us }), requests: Math.round(weights[source] * (86000 + tick)), requests_per_s: each, bytes_per_s: each * sizes[source] }
  })
  const each = answers.reduce((sum, one) => sum + one.requests_per_s, 0)
  return {
    site: site || null,
    requests: answers.reduce((sum, one) => sum + one.requests, 0), requests_per_s: each,
    hit_ratio: 0.894 + 0.004 * Math.sin(tick / 7), byte_hit_ratio: 0.842 + 0.006 * Math.sin(tick / 5), hit_ratio_day: 0.8871, byte_hit_ratio_day: 0.8293,
    bytes_per_s: answers.reduce((sum, one) => sum + one.bytes_per_s, 0), origin_bytes_per_s: answers[4].bytes_per_s, origin_bytes_saved: 18.42 * 1024 * GIB + tick * 200 * MIB,
    answers, heat: site ? { edges_us: [], column_s: 10, sources: {} } : heat(tick, weights, times),
    limits: { cpu_cores_used: 2.31 * wave(tick, 'cpu'), cores: 8, ram_used: 15.4 * GIB, ram_limit: 16 * GIB, rss: 16.9 * GIB, disk_used: 3.1 * 1024 * GIB, disk_limit: 3.6 * 1024 * GIB, connections: Math.round(4210 * wave(tick, 'conn')), max_connections: 16384, origin_connections: 214 },
    sites: sites(tick, kind), sites_others: kind === 'many' ? 9900 : 0, mirrors: mirrors(tick),
    warnings: kind === 'hostile' ? [HOSTILE.script, HOSTILE.turned] : ['Disk nvme1 answers 1% of its reads later than 20 ms; its queue is limited to 16 operations.'],
  }
}

/** Counts by bucket: a bell over the logarithm of the time, and now and then a slow minute. */
function heat(tick, weights, times) {
  const edges = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576]
  const column = (source, at) => {
    const slow = (at % 23 > 19 ? 1.6 : 0) * chance(`${source} slow`)
    const middle = Math.log2(times[source][0]) + slow
    const width = Math.max(0.7, (Math.log2(times[source][1]) - Math.log2(times[source][0])) / 2.9)
    return [...edges, 2 * edges.at(-1)].map((edge, bucket) => Math.round(weights[source] * 10 * Math.exp(-(((Math.log2(edge) - 0.5 - middle) / width) ** 2) / 2) * (0.7 + 0.6 * chance(`${source}${at}${bucket}`)) * 0.4))
  }
  const start = Math.floor(tick / 10)
  return { edges_us: edges, column_s: 10, sources: Object.fromEntries(SOURCES.filter(source => !['error', 'neighbourhood', 'peer'].includes(source)).map(source => [source, Array.from({ length: 60 }, (_, at) => column(source, start + at))])) }
}

function sites(tick, kind) {
  const names = ['www.shop.example', 'static.shop.example', 'api.shop.example', 'images.news.example', 'video.news.example', 'docs.tools.example', 'feeds.radio.example', 'maps.city.example', 'archive.library.example']
  if (kind === 'hostile') names.unshift(...Object.values(HOSTILE).map(text => text.slice(0, 512)))
  if (kind === 'many') names.push(...Array.from({ length: 91 }, (_, at) => `tenant-${String(at + 1).padStart(5, '0')}.cloud.example`))
  return names.map((name, at) => {
    const each = (3200 / (at + 1) ** 0.9) * wave(tick, name)
    const hits = 0.98 - 0.5 * chance(name) ** 2
    return { name, requests: Math.round((3200 / (at + 1) ** 0.9) * (86000 + tick)), requests_per_s: each, hit_ratio: hits, byte_hit_ratio: hits * (0.8 + 0.2 * chance(`${name}b`)), bytes_per_s: each * 8000 * (0.3 + 6 * chance(`${name}s`)), p99_us: Math.round(2000 + 90000 * chance(`${name}t`)), errors: at % 4 === 2 ? Math.round(600 * chance(`${name}e`)) : 0 }
  })
}

function mirrors(tick) {
  return [['npm', 'npm', 0.97], ['pypi', 'python', 0.93], ['crates', 'cargo', 0.99], ['debian', 'apt', 0.9]].map(([name, kind, hits], at) => ({ name, kind, requests: 900000 - at * 170000, requests_per_s: (60 - at * 13) * wave(tick, name), hit_ratio: hits, byte_hit_ratio: hits * 0.97, bytes_per_s: (9 - at * 2) * MIB, p99_us: 4000 + at * 21000, errors: 0 }))
}

function reasons(tick, kind, { site = '' }) {
  const url = path => (kind === 'hostile' ? [HOSTILE.script, HOSTILE.turned, HOSTILE.long, HOSTILE.attribute][path.length % 4] : `http://${site || 'www.shop.example'}${path}`)
  const row = (reason, share, text, rule, ...paths) => ({ reason, text, requests: Math.round(share * 840 * (60000 + tick)), bytes: Math.round(share * 71000 * 840 * (60000 + tick)), share, samples: paths.map(url), rule, settings: settingsIn(rule) })
  return {
    sites: sites(tick, kind).map(one => one.name),
    misses: [
      row('uri-miss', 0.441, 'Nothing is stored for the URL.', '`detail` says why the answer was not stored; without it the next request is a hit. If it was stored and is gone: `cache.ram`, `store.disk`, or a rule with `query_drop` for one answer under many URLs.', '/list?utm_source=mail&page=2', '/search?q=shoes', '/static/app.8f3a.js'),
      row('stale', 0.263, 'The stored answer is stale, or must be validated each time.', 'A longer lifetime, such as a rule’s `lifetime_min`, or a rule with `stale_while_revalidate` or `ignore_origin = ["no-cache"]`.', '/prices.json', '/'),
      row('vary-miss', 0.118, 'Answers for other fields of Vary are stored.', 'A rule with `accept_encoding`, `accept_language`, `cookies` or `ignore_vary`.', '/front', '/news/today'),
      row('bypass', 0.092, 'The cache has no part in the request: conditions for the origin, an upgrade, a body, a login, or a rule.', 'The client, or the rule’s `pass`.', '/account'),
      row('request', 0.061, 'A fresh answer is stored, and the client asked for another.', 'A rule with `ignore_client_no_cache = true`, or a longer `cache.reload_interval`.', '/feed.xml'),
      row('method', 0.025, 'The method is neither GET nor HEAD.', 'None.', '/cart/add'),
    ],
    not_stored: [
      row('set-cookie', 0.382, 'The answer sets a cookie.', '`set_cookie = "strip"` in a rule, a site or `[cache]` stores the answer without the cookie.', '/front', '/category/42'),
      row('no-store', 0.271, 'The origin said `no-store`.', 'A rule with `ignore_origin = ["no-store"]` and `share_private = true`, if all clients may see the answer.', '/account', '/basket'),
      row('private', 0.194, 'The origin said `private`: the answer is for one client.', 'A rule with `ignore_origin = ["private"]` and `share_private = true`, if all clients may see the answer.', '/me'),
      row('not-permitted', 0.097, 'Nothing permits storing: no lifetime of the origin, and a status that is not stored without one.', 'A rule with `lifetime_default` or `lifetime` that names the status in `statuses`.', '/old'),
      row('too-large', 0.056, 'The answer is larger than RAM tier and disk accept.', '`cache.ram_object_max`, `store.object_max`.', '/dvd.iso'),
    ],
  }
}

const settingsIn = sentence => [...sentence.matchAll(/`([a-z_.]+)/g)].map(found => found[1]).filter(name => name.includes('_') || name.includes('.'))

function disk(tick) {
  const names = ['nvme0', 'nvme1']
  const behind = name => Array.from({ length: 128 }, (_, at) => Math.round((5200 * Math.exp(-at / 22) + 700 * Math.exp(-(((at - 74) / 9) ** 2)) + 160) * (0.75 + 0.5 * chance(`${name} ${at}`))))
  return {
    disks: names.map((name, at) => ({ name, kind: 'volume', in_service: true, size: 1.8 * 1024 * GIB, used: (1.62 - at * 0.1) * 1024 * GIB, reads: 812345678 + tick, writes: 32345678 + tick, read_bytes: 61.2 * 1024 * GIB, write_bytes: 8.4 * 1024 * GIB, reads_per_s: 742 * wave(tick, name), writes_per_s: 31 * wave(tick, `${name}w`), queue_p50_us: 96 + at * 31, queue_p99_us: Math.round((2100 + at * 19400) * wave(tick, `${name}q`)), damage: at * 3, writes_per_day_bytes: 410 * GIB, wear_years: at ? null : 8.7 })),
    per_request: { ios: 0.173 + 0.002 * Math.sin(tick), bytes: 16200, bytes_written: 1610 }, per_byte_served: 0.041, admission: { offered: 84123456 + tick * 90, admitted: 31234567 + tick * 40, offered_bytes: 6.1 * 1024 * GIB, admitted_bytes: 2.9 * 1024 * GIB }, carried_over: 1834211,
    cursor: Object.fromEntries(names.map((name, at) => [name, { position: (0.372 + at * 0.31 + tick / 900) % 1, laps: 41 - at * 3 }])),
    popularity: Object.fromEntries(names.map(name => [name, behind(name)])),
  }
}

function size(tick) {
  const ratio = (size, top, half) => top / (1 + (half / size) ** 0.62)
  const at = (size, text) => ({ text, ...size, ram_hit_ratio: ratio(size.ram, 0.972, 210 * GIB), hit_ratio: ratio(size.ram + size.disk, 0.972, 210 * GIB), byte_hit_ratio: ratio(size.ram + size.disk, 0.961, 520 * GIB) })
  const today = { ram: 16 * GIB, disk: 3.6 * 1024 * GIB }
  const curve = Array.from({ length: 44 }, (_, step) => {
    const size = 256 * MIB * 2 ** (step * 0.39)
    return { bytes: Math.round(size), hit_ratio: ratio(size, 0.972, 210 * GIB), byte_hit_ratio: ratio(size, 0.961, 520 * GIB) }
  })
  return {
    sampled_keys: 8123, rate: 0.001, error_points: 0.9, requests: 71234567 + tick * 8000, curve,
    now: { ...today, hit_ratio_forecast: ratio(today.ram + today.disk, 0.972, 210 * GIB), hit_ratio_measured: 0.832 },
    what_if: [at({ ram: 32 * GIB, disk: today.disk }, 'twice the RAM'), at({ ram: today.ram, disk: today.disk / 2 }, 'half the disk'), at({ ram: today.ram, disk: today.disk * 2 }, 'twice the disk'), at({ ram: today.ram, disk: 512 * GIB }, 'one disk of 512 GiB')],
    advice: ['Half the disk would cost 4.2 points: `store.disk = "1.8 TiB"`.', 'Twice the RAM spares the disks 18% of their reads: `cache.ram = "32 GiB"`.', 'A query field splits one object into many on www.shop.example: `query_drop = ["utm_*"]` in a rule.'],
  }
}

function origins(tick, kind) {
  const row = (name, site, state, weight, more = {}) => ({ name, site, state, requests: weight * 86000, requests_per_s: weight * wave(tick, name), errors: 0, p50_us: Math.round(14000 + 20000 * chance(name)), p99_us: Math.round(90000 + 240000 * chance(`${name}p`)), connections: Math.round(weight / 4), max_connections: 256, stale_served: 0, since_ms: 86400000 * 3 + tick * 1000, ...more })
  const list = [row('https://10.0.4.11:8443', 'www.shop.example', 'up', 210), row('https://10.0.4.12:8443', 'www.shop.example', 'up', 204), row('https://10.0.4.13:8443', 'www.shop.example', 'down', 0, { errors: 5120, stale_served: 40210, since_ms: 754000 + tick * 1000 }), row('http://10.0.5.20:8000', 'images.news.example', 'up', 180), row('http://10.0.5.21:8000', 'video.news.example', 'up', 96, { errors: 12 }), row('http://10.0.6.7:9000', 'docs.tools.example', 'probing', 3, { errors: 88, stale_served: 512 }), row('https://registry.example', 'npm', 'up', 41), row('https://index.example', 'pypi', 'up', 19)]
  if (kind === 'hostile') list.unshift(row(HOSTILE.script, HOSTILE.turned, HOSTILE.attribute, 999))
  return { origins: list }
}

function objects(tick, kind, { by = 'requests', q = '', site = '' }) {
  const paths = ['/static/app.8f3a.js', '/img/hero@2x.avif', '/api/v2/prices?currency=EUR', '/fonts/inter.woff2', '/', '/video/intro.mp4', '/search?q=shoes&page=1', '/feed.xml', '/dist/tool-2.4.1.tar.gz', '/img/logo.svg', '/category/42?sort=price', '/docs/guide/', '/tiles/12/2201/1343.png', '/news/today', '/img/team.jpg', '/static/style.51bc.css']
  const hosts = ['static.shop.example', 'images.news.example', 'www.shop.example', 'docs.tools.example']
  const list = paths.map((path, at) => {
    const host = hosts[at % hosts.length]
    const size = Math.round(10 ** (3 + 4 * chance(path)))
    const requests = Math.round(9000000 / (at + 1) ** 1.05) + tick
    return { url: `https://${host}${path}`, site: host, requests, bytes: requests * size, origin_ms: Math.round(requests * 0.02 * (20 + 400 * chance(`${path}o`))), key_url: `https://${host}${path}`, size, in: at % 7 === 6 ? 'none' : at % 3 === 2 ? 'disk' : 'ram' }
  })
  if (kind === 'hostile') list.unshift(...Object.values(HOSTILE).map((text, at) => ({ ...list[at], url: text.slice(0, at === 3 ? 30 : undefined), key_url: at === 3 ? null : text, site: HOSTILE.attribute })))
  const key = { requests: 'requests', bytes: 'bytes', cost: 'origin_ms' }[by] ?? 'requests'
  return { sampled_one_in: 16, by, objects: list.filter(one => one.url.includes(q) && (!site || one.site === site)).sort((a, b) => b[key] - a[key]) }
}

function cluster(tick, kind) {
  const names = kind === 'hostile' ? ['cache-a', HOSTILE.script, HOSTILE.turned] : ['cache-a', 'cache-b', 'cache-c', 'cache-d']
  const share = [0.28, 0.28, 0.28, 0.16]
  const asks = at => ({ served: 901234 - at * 200100 + tick * 30, declined: 812 + at * 90, failed: at, refused: 0, late: at === 2 ? 214 : 3, wrong: 0, skipped: at === 2 ? 900 : 0 })
  return {
    enabled: true, cluster: 'prod', node: 'cache-a', address: '10.0.0.1:3131', state: 'in', life: tickTime(0) - 86_400_000, key: '9f31c2', view: 'c01dcafe', refused: null,
    members: names.map((name, at) => ({ name, address: `10.0.0.${at + 1}:3131`, state: ['in', 'in', 'suspect', 'in'][at], share: share[at], life: tickTime(0) - (at + 1) * 86_400_000, last_contact_ms: at ? Math.round(40 + 300 * chance(`${name}${tick}`) + (at === 2 ? 5200 : 0)) : null })),
    peers: names.slice(1).map((name, at) => ({ name, state: at === 1 ? 'does not answer in time' : 'asked', timeout_ms: 40, p99_ms: 3.1 + at * 4, asks: asks(at), stopped: at, received_bytes: (310 - at * 80) * GIB, purges_lag: at === 1 ? 3 : 0 })),
    datagrams: { sent: 812345 + tick * 12, sent_bytes: 98123456, received: 798123 + tick * 12, received_bytes: 96123456, sent_per_second: 12.1, sent_bytes_per_second: 1480, not_sent: 0, joins_refused: 1, dropped: { unknown_key: 4, old_life: 2 } },
    counts: { moved: 48211, asks_given_up: 12, purges_repaired: 3 },
  }
}

function log(tick, kind, filters) {
  const lines = Array.from({ length: 200 }, (_, at) => ({ ...logLine(tick * 7 + at, kind), unix_ms: tickTime(tick) - (200 - at) * 40 }))
  return { lines: lines.filter(line => fits(line, filters)) }
}

/** Filters of the log, as the node has them. */
export function fits(line, { url = '', status = '', result = '', site = '' }) {
  const byStatus = !status || (/^\dxx$/.test(status) ? String(line.status)[0] === status[0] : String(line.status) === status)
  return line.url.includes(url) && byStatus && (!result || line.result === result) && line.site.includes(site)
}

/** Kinds of lines, as often as the hit ratio has it. */
const WEIGHTS = [...Array(22).fill(0), ...Array(9).fill(1), 2, 2, ...Array(6).fill(3), 4, 5, 5, 6, 7]

function logLine(at, kind) {
  const [method, url, status, result, reason, duration, size] = [
    ['GET', 'https://static.shop.example/static/app.8f3a.js', 200, 'memory_hit', '', 41, 184211],
    ['GET', 'https://images.news.example/img/hero@2x.avif', 200, 'hit', '', 812, 412112],
    ['GET', 'https://www.shop.example/search?q=shoes&page=1', 200, 'miss', 'set-cookie', 48211, 24110],
    ['GET', 'https://docs.tools.example/docs/guide/', 304, 'memory_hit', '', 22, 0],
    ['POST', 'https://www.shop.example/cart/add', 302, 'miss', 'method', 31877, 512],
    ['GET', 'https://api.shop.example/api/v2/prices?currency=EUR', 200, 'refresh_unmodified', 'stale', 19400, 8021],
    ['GET', 'https://www.shop.example/old/page', 404, 'miss', 'uri-miss', 22311, 1411],
    ['GET', 'https://www.shop.example/account', 502, 'miss', 'connection_refused', 1104, 319],
  ][WEIGHTS[Math.floor(chance(`line ${at}`) * WEIGHTS.length)]]
  const hostile = Object.values(HOSTILE)
  const text = kind === 'hostile' ? hostile[at % hostile.length].slice(0, 511) : url
  return { unix_ms: tickTime(at), client: `192.0.2.${1 + (at % 200)}`, method, url: text, status, bytes: size, result, reason, duration_us: Math.round(duration * (0.6 + chance(`took ${at}`))), site: url.split('/')[2] }
}

function history(kind, seconds, points, unixS) {
  const step = Math.max(10, Math.round(seconds / points))
  const length = Math.floor(seconds / step)
  const start = unixS - length * step
  const day = at => 0.62 + 0.38 * Math.sin((at / length) * 6.28 * (seconds / 86400) - 4.7 * (seconds / 86400) + 1.57)
  const gone = at => kind === 'empty' || (seconds > 80000 && at > length * 0.31 && at < length * 0.33)
  const noise = (key, at) => 0.35 * (chance(`${key}${at}`) - 0.5) + 0.5 * Math.sin(at / 7 + 6 * chance(key)) * Math.sin(at / 17 + 9 * chance(`${key}b`))
  const row = (key, most, depth = 0.1) => Array.from({ length }, (_, at) => (gone(at) ? null : most * day(at) * (1 + depth * noise(key, at))))
  const flat = (key, most, depth) => row(key, 1, depth).map((value, at) => (value === null ? null : (value / day(at)) * most))
  const requests = row('requests', 9100)
  const bytes = row('bytes', 391e6)
  const part = (list, key, share) => list.map((value, at) => (value === null ? null : value * (share + 0.03 * noise(key, at))))
  return {
    start, step_s: step,
    series: {
      requests, hits: part(requests, 'hits', 0.887), bytes, hit_bytes: part(bytes, 'hb', 0.83), origin_bytes: part(bytes, 'ob', 0.17), disk_reads: row('dr', 1500), disk_writes: row('dw', 62), disk_read_bytes: row('drb', 140e6), disk_write_bytes: row('dwb', 16e6),
      cpu_ms: row('cpu', 2600), rss_bytes: flat('rss', 16.9 * GIB, 0.01), p50_us: flat('p50', 52, 0.2), p99_us: row('p99', 61000, 0.7), errors: row('errors', 9, 1.6),
    },
  }
}

/** A node that has just started: no list has a row, no counter a count. */
function emptied(page, document) {
  const zero = value => {
    if (Array.isArray(value)) return []
    if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, zero(inner)]))
    return typeof value === 'number' ? 0 : typeof value === 'string' ? value : null
  }
  if (page === 'cluster') return { enabled: false }
  return zero(document)
}

const tickTime = tick => 1795000000000 + tick * 1000
