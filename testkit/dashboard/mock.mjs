// A node's admin listener that serves the page and made-up documents, for tests of the page alone.
// `node mock.mjs [kind] [port]` serves it to a browser.

import { createServer } from 'node:http'
import { readFileSync, readdirSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import { documents, fits } from './fixtures.mjs'

export const ASSETS = process.env.SHOAL_ASSETS ?? fileURLToPath(new URL('../../crates/dashboard/assets/', import.meta.url))
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' }
const PAGES = ['now', 'reasons', 'disk', 'size', 'origins', 'objects', 'cluster', 'log']

/** A mock node; tests change its fields while it runs. */
export class Mock {
  constructor(kind = 'busy') {
    this.documents = documents(kind)
    this.kind = kind
    this.tick = 0
    this.every = 1000
    this.clockMs = 0
    this.startedTick = 0
    this.state = 'ready'
    this.silent = false
    this.mayChange = true
    this.posts = []
    this.streams = new Set()
    this.assets = new Map(readdirSync(ASSETS).map(name => [name, readFileSync(join(ASSETS, name))]))
  }

  /** Listens on loopback; the same port again after `die`. */
  async listen(port = this.port ?? 0) {
    this.server = createServer((request, response) => this.answer(request, response))
    await new Promise((done, fail) => this.server.once('error', fail).listen(port, '127.0.0.1', done))
    this.port = this.server.address().port
    this.beat()
    return `http://127.0.0.1:${this.port}`
  }

  /** Ends at once, as a killed process does. */
  async die() {
    clearTimeout(this.timer)
    this.server.closeAllConnections()
    await new Promise(done => this.server.close(done))
    this.streams.clear()
  }

  /** Tells every viewer that the node ends. */
  drain() {
    this.state = 'draining'
    for (const stream of this.streams) this.send(stream, 'ended', {})
  }

  beat() {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.beat(), this.every)
    if (this.silent) return
    this.tick += 1
    for (const stream of this.streams) {
      if (stream.page !== 'log') this.send(stream, stream.page, this.document(stream.page, stream.query))
      else this.sendLines(stream)
    }
  }

  sendLines(stream) {
    this.send(stream, 'tick', {})
    const lines = Array.from({ length: 5 }, (_, at) => ({ ...this.documents.line(this.tick * 5 + at), unix_ms: this.unixMs() }))
    for (const line of lines.filter(line => this.kind !== 'empty' && fits(line, stream.query))) this.send(stream, 'line', line)
    if (this.tick % 5 === 0) this.send(stream, 'skipped', { skipped: 12 })
  }

  send(stream, name, data) {
    stream.response.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`)
  }

  unixMs() {
    return Date.now() + this.clockMs
  }

  document(page, query) {
    const common = { unix_ms: this.unixMs(), node: 'cache-a', version: '0.4.0', uptime_s: 864321 + this.tick - this.startedTick, state: this.state, may_change: this.mayChange }
    return { ...common, ...this.documents.of(page, this.tick, query) }
  }

  async answer(request, response) {
    const { pathname, searchParams } = new URL(request.url, 'http://node')
    const query = Object.fromEntries(searchParams)
    const json = (value, status = 200) => this.reply(request, response, status, 'application/json', JSON.stringify(value))
    if (request.method === 'POST') return this.change(request, pathname, json)
    if (this.refuses && pathname.startsWith('/ui/data/')) return json({ error: 'log in to look' }, 403)
    if (pathname === '/') return response.writeHead(302, { Location: '/ui/' }).end()
    if (pathname === '/ui/live') return this.stream(response, query)
    if (pathname === '/ui/history') return json(this.documents.history(Number(query.seconds), Number(query.points ?? 360), Math.floor(this.unixMs() / 1000)))
    const page = pathname.replace('/ui/data/', '')
    if (PAGES.includes(page)) return json(this.document(page, query))
    const name = pathname === '/ui/' ? 'index.html' : pathname.replace('/ui/', '')
    if (this.assets.has(name)) return this.reply(request, response, 200, TYPES[extname(name)], this.assets.get(name))
    return this.reply(request, response, 404, 'text/plain', 'no such page')
  }

  stream(response, { page, ...query }) {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
    const stream = { response, page, query }
    this.streams.add(stream)
    response.on('close', () => this.streams.delete(stream))
    response.flushHeaders()
  }

  async change(request, pathname, json) {
    let text = ''
    for await (const part of request) text += part
    const body = JSON.parse(text)
    this.posts.push({ pathname, body, type: request.headers['content-type'] })
    if (pathname === '/purge') return json({ purged: { responses: 3 } })
    if (pathname === '/explain') return body.url.startsWith('http') ? json(explanation(body)) : json({ error: 'the URL is not absolute' }, 400)
    return json({ error: 'no such route' }, 404)
  }

  reply(request, response, status, type, body) {
    const zipped = /gzip/.test(request.headers['accept-encoding'] ?? '')
    const headers = { 'Content-Type': type, 'Content-Security-Policy': POLICY, 'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'no-referrer', 'Cache-Control': 'no-cache', ...(zipped ? { 'Content-Encoding': 'gzip' } : {}) }
    response.writeHead(status, headers).end(zipped ? gzipSync(body, { level: 9 }) : body)
  }
}

/** An answer of `POST /explain`, with every part that one can have. */
function explanation({ url, method }) {
  return {
    method: method ?? 'GET', url, client: '127.0.0.1', listener: { address: '0.0.0.0:8080', mode: 'reverse', tls: true }, refusal: null,
    site: { key: 'site[0]', line: 9, hosts: ['www.shop.example'], path_prefix: '/', upstreams: [{ url: 'https://10.0.4.11:8443', credentials: null }] }, mirror: null,
    rules: { combination: 'Later rules go before earlier ones.', matching: [{ key: 'rule[0]', name: 'static files', line: 13, conditions: [['paths', '["/static/*"]']], settings: [{ name: 'lifetime_default', value: '10 min', part: 'wins', overruled_by: null }, { name: 'query_drop', value: '["utm_*"]', part: 'overruled', overruled_by: 'rule[2]' }] }], left_out: 0 },
    guards: [], rates: [{ setting: 'rule[0].client_rate', per_second: 20, burst: 40, wait_seconds: null }], error_pages: [],
    target: { url, upstream_path: '/static/a.js', key: url },
    stored: { kind: 'response', varies_by: [['accept-encoding']], tier: 'ram', on_disk: true, status: 200, body_bytes: 184211, age_seconds: 412, lifetime_seconds: 600, ttl_seconds: 188, fresh_until: 'Sat, 28 Nov 2026 02:38:21 GMT', always_validates: false, forbids_stale: false, stale_while_revalidate_seconds: 30, stale_if_error_seconds: 86400, parts: [], gaps: [], complete_bytes: null, variants: [{ fields: [['accept-encoding', 'gzip']], tier: 'ram', is_selected: true }], variants_left_out: 0, remembered_as_unstorable: false },
    reuse: { hit: true, fwd: null, detail: null, reason: 'It is fresh for 188 s more.', remedy: null },
    storing: { answer: 'stored', status: 200, stored: true, detail: null, decided_by: 'rule[0].lifetime_default', lifetime_seconds: 600, ttl_seconds: 600, lifetime_source: 'rule.lifetime', limited: false, targeted: false, reason: 'It is fresh for 600 s.', remedy: 'A rule with `lifetime`.' },
    notes: ['The answer of the origin is compressed by itself.'],
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const mock = new Mock(process.argv[2] ?? 'busy')
  console.log(`${await mock.listen(Number(process.argv[3] ?? 0))}/ui/`)
}
