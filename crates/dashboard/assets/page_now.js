// The first view: rates, ratios, sources of answers, latency, limits, sites.

import { h, setText, setWidth, visible } from './dom.js'
import { byteRate, bytes, count, micros, percent, plain, rate, whole } from './format.js'
import { HeatMaps, ramp } from './chart_heat.js'
import { HistoryPanel, fetchHistory } from './history.js'
import { SOURCES, meter, panel, remarks, sourceClass, sourceName, textField, tile, tiles } from './parts.js'
import { Table, number, share } from './table.js'

/** Opens the view. */
export function open(context) {
  const view = new NowView(context)
  return { lead: 'Requests, sources of answers, and the node’s limits', parts: view.parts, query: () => ({ site: context.route.get('site') }), update: document => view.update(document), close: () => view.close() }
}

class NowView {
  constructor({ route, set }) {
    this.route = route
    this.aborted = new AbortController()
    this.tiles = Object.fromEntries(TILES.map(([name, title, hint]) => [name, tile(title, { hint })]))
    this.warnings = h('section', { 'aria-label': 'Warnings', hidden: true })
    this.answers = new Answers(route)
    this.heat = new HeatMaps()
    this.limits = Object.fromEntries(LIMITS.map(([name, title, fills]) => [name, meter(title, fills)]))
    this.sites = siteTable(route, 'sort', 'Sites', 'No site has had a request yet.', [], name => this.narrow(name))
    this.mirrors = siteTable(route, 'sort2', 'Mirrors', 'No mirror has had a request yet.', [{ key: 'kind', label: 'Kind', cell: row => row.kind, value: row => row.kind, ascending: true }])
    this.hints = hintTable(route)
    this.hintPanel = panel('Prefetching by source of hints', { label: 'hints' }, this.hints.element)
    this.filter = textField('Filter sites by name', 'Filter sites', route.get('q'), text => {
      route.set({ q: text }, false)
      this.showSites()
    })
    this.others = h('tr', { class: 'rest' }, h('th', { scope: 'row', colspan: '8' }))
    this.mirrorPanel = panel('Mirrors', {}, this.mirrors.element)
    this.sitePanel = panel('Sites', { end: [this.filter], label: 'sites' }, this.sites.element)
    this.history = new HistoryPanel(route, ['requests', 'ratios', 'bytes', 'latency', 'machine', 'memory'])
    this.set = set
    const limits = panel('Limits', { width: 'w4', label: 'limits' }, h('div', { class: 'meters' }, ...Object.values(this.limits).map(one => one.element)))
    this.one = h('p', { class: 'notice' }, 'Numbers of the site ', this.siteName = h('b', {}), '. Times, limits and history are the node’s. ', h('button', { type: 'button', class: 'plain small', on: { click: () => this.narrow('') } }, 'All sites'))
    const heat = this.heatPanel = panel('Latency by source', { note: 'last ten minutes, by time to answer', end: [ramp()], label: 'heat' }, this.heat.shell)
    this.parts = [this.one, this.warnings, tiles(Object.values(this.tiles)), this.answers.panel, limits, heat, this.sitePanel, this.mirrorPanel, this.hintPanel, this.history.element]
    this.showSite()
    this.curves()
  }

  /** Narrows the numbers to one site, or widens them again. */
  narrow(site) {
    this.set({ site })
    this.showSite()
  }

  showSite() {
    const site = this.route.get('site')
    this.heatPanel.hidden = site !== ''
    this.one.hidden = site === ''
    setText(this.siteName, visible(site))
  }

  update(now) {
    this.now = now
    this.showTiles(now)
    this.answers.update(now.answers ?? [])
    this.heat.update(now.heat ?? {})
    this.showLimits(now.limits ?? {})
    this.showSites()
    const warnings = now.warnings ?? []
    this.warnings.hidden = warnings.length === 0
    const key = warnings.join('\n')
    if (key !== this.warned) this.warnings.replaceChildren(remarks(warnings.map(text => h('li', {}, visible(text))), true))
    this.warned = key
  }

  showTiles(now) {
    const { requests, hits, byteHits, served, saved, slow } = this.tiles
    const worst = (now.answers ?? []).reduce((most, one) => (ANSWERED.has(one.source) && one.requests_per_s > 0 && one.p99_us > (most?.p99_us ?? 0) ? one : most), undefined)
    requests.set(rate(now.requests_per_s), `${count(now.requests)} since the start`)
    hits.set(percent(now.requests ? now.hit_ratio : undefined), now.requests ? `${percent(now.hit_ratio_day)} over the day` : 'no requests yet')
    byteHits.set(percent(now.requests ? now.byte_hit_ratio : undefined), now.requests ? `${percent(now.byte_hit_ratio_day)} over the day` : 'no requests yet')
    served.set(byteRate(now.bytes_per_s), `${byteRate(now.origin_bytes_per_s)} from origins`)
    saved.set(bytes(now.origin_bytes_saved), 'since the start')
    slow.set(micros(worst?.p99_us), worst ? `by ${sourceName(worst.source)}, the slowest` : 'no requests now')
    requests.now(now.requests_per_s)
    hits.now(now.hit_ratio)
    byteHits.now(now.byte_hit_ratio)
    served.now(now.bytes_per_s)
  }

  /** The last hour behind the large numbers. */
  async curves() {
    try {
      const { series } = await fetchHistory(3600, 120, this.aborted.signal)
      const pairs = (part, all) => (all ?? []).map((value, at) => (value > 0 ? (part?.[at] ?? 0) / value : NaN))
      this.tiles.requests.curve(series.requests ?? [])
      this.tiles.hits.curve(pairs(series.hits, series.requests))
      this.tiles.byteHits.curve(pairs(series.hit_bytes, series.bytes))
      this.tiles.served.curve(series.bytes ?? [])
      this.tiles.saved.curve((series.bytes ?? []).map((value, at) => (value === null ? NaN : Math.max(0, value - (series.origin_bytes?.[at] ?? 0)))))
      this.tiles.slow.curve(series.p99_us ?? [])
    } catch {
      // Without a history the numbers stand alone; the panel below says why.
    }
    if (!this.aborted.signal.aborted) this.timer = setTimeout(() => this.curves(), 30000)
  }

  showLimits(limits) {
    const of = (used, limit, format) => `${format(used)} of ${limit ? format(limit) : 'no limit'}`
    const { cpu, ram, resident, disk, connections } = this.limits
    cpu.set(limits.cpu_cores_used, limits.cores, `${plain(limits.cpu_cores_used)} of ${whole(limits.cores)} cores`)
    ram.set(limits.ram_used, limits.ram_limit, of(limits.ram_used, limits.ram_limit, bytes))
    resident.set(0, 1, bytes(limits.rss))
    resident.element.lastChild.hidden = true
    disk.set(limits.disk_used, limits.disk_limit, of(limits.disk_used, limits.disk_limit, bytes))
    connections.set(limits.connections, limits.max_connections, of(limits.connections, limits.max_connections, whole))
    this.limits.origins.set(0, 1, whole(limits.origin_connections))
    this.limits.origins.element.lastChild.hidden = true
  }

  showSites() {
    if (!this.now) return
    const wanted = this.route.get('q').toLowerCase()
    const named = this.now.sites ?? []
    const sites = named.filter(site => site.name.toLowerCase().includes(wanted))
    const others = this.now.sites_others ?? 0
    setText(this.others.firstChild, `and ${whole(others)} further sites with fewer requests`)
    this.sites.update(sites, others > 0 && !wanted ? this.others : undefined)
    this.sitePanel.note(`${whole(sites.length)} shown${others ? ` of ${whole(named.length + others)}` : ''}`)
    this.mirrors.update(this.now.mirrors ?? [])
    this.mirrorPanel.hidden = (this.now.mirrors ?? []).length === 0
    this.hints.update(this.now.hints ?? [])
    this.hintPanel.hidden = (this.now.hints ?? []).length === 0
  }

  close() {
    this.aborted.abort()
    clearTimeout(this.timer)
    this.heat.close()
    this.history.close()
  }
}

/** Panel of the sources of answers: a bar of their shares, and their numbers. */
class Answers {
  constructor(route) {
    this.bar = h('div', { class: 'split', 'aria-hidden': 'true' })
    this.pieces = new Map(SOURCES.map(([name]) => [name, h('i', { class: sourceClass(name) })]))
    this.bar.append(...this.pieces.values())
    const name = {
      key: 'source', label: 'Source',
      draw: (row, cell) => { if (!cell.firstChild) cell.append(h('i', { class: `swatch ${sourceClass(row.source)}` }), visible(sourceName(row.source))) },
    }
    const columns = [name, share('share', 'Share', percent, { own: row => sourceClass(row.source), long: true }), number('requests_per_s', 'Requests', rate), number('bytes_per_s', 'Bytes', byteRate), number('p50_us', 'Half within', micros), number('p99_us', '99% within', micros), number('requests', 'Since start', count)]
    this.table = new Table({ get: () => '', set: () => {} }, { caption: 'Sources of answers', columns: columns.map(column => ({ ...column, value: undefined })), rowKey: row => row.source, empty: 'No requests yet. Point a client at a listener of this node.' })
    this.panel = panel('Where answers come from', { width: 'w8', note: 'shares of the requests now', label: 'answers' }, this.bar, this.table.element)
    this.route = route
  }

  update(answers) {
    const now = answers.reduce((sum, one) => sum + (one.requests_per_s || 0), 0)
    const all = answers.reduce((sum, one) => sum + (one.requests || 0), 0)
    const shareOf = one => (now > 0 ? (one.requests_per_s || 0) / now : all > 0 ? (one.requests || 0) / all : 0)
    for (const [name, piece] of this.pieces) {
      const one = answers.find(answer => answer.source === name)
      piece.hidden = !one || shareOf(one) === 0
      setWidth(piece, one ? shareOf(one) : 0)
      piece.title = `${sourceName(name)} ${percent(one ? shareOf(one) : 0)}`
    }
    this.bar.hidden = all === 0
    this.table.update(answers.filter(one => one.requests > 0).map(one => ({ ...one, share: shareOf(one) })))
  }
}

function siteTable(route, parameter, caption, empty, more = [], onName) {
  const name = { key: 'name', label: 'Name', draw: (row, cell) => drawName(row, cell, onName), value: row => row.name, ascending: true }
  const columns = [name, ...more, number('requests_per_s', 'Requests', rate), share('hit_ratio', 'Hits', percent), share('byte_hit_ratio', 'Byte hits', percent), number('bytes_per_s', 'Bytes', byteRate), number('p99_us', '99% within', micros), number('errors', 'Errors', whole, { tone: row => (row.errors > 0 ? 'alarm' : 'zero') }), number('requests', 'Since start', count)]
  return new Table(route, { caption, columns, rowKey: row => row.name, parameter, order: '-requests', empty })
}

function hintTable(route) {
  const name = { key: 'source', label: 'Source', cell: row => visible(row.source), value: row => row.source, ascending: true }
  const muted = { key: 'muted_seconds', label: 'Muted', cell: row => (row.muted_seconds > 0 ? `${whole(row.muted_seconds)} s` : 'no'), value: row => row.muted_seconds, tone: row => (row.muted_seconds > 0 ? 'alarm' : 'zero') }
  const columns = [name, number('received', 'Hints', count), number('prefetched', 'Fetched', count), number('used', 'Used', count), number('wasted_bytes', 'Wasted', bytes), share('precision', 'Precision', percent), muted]
  return new Table(route, { caption: 'Prefetching', columns, rowKey: row => row.source, parameter: 'sort3', order: '-received', empty: 'Nothing was hinted yet.' })
}

function drawName(row, cell, onName) {
  if (!cell.firstChild) cell.append(onName ? h('button', { type: 'button', class: 'name', title: 'Only this site', on: { click: () => onName(cell.site) } }) : h('bdi', {}))
  cell.site = row.name
  setText(cell.firstChild, visible(row.name))
  cell.title = visible(row.name)
}

/** Sources whose slowness the node can answer for. */
const ANSWERED = new Set(['ram', 'disk', 'neighbourhood', 'peer', 'origin', 'stale'])

const TILES = [
  ['requests', 'Requests', 'Requests a second, with the last hour'],
  ['hits', 'Hit ratio', 'Requests of the last minute that no origin was asked for'],
  ['byteHits', 'Byte hit ratio', 'Bytes of the last minute that no origin was asked for'],
  ['served', 'Sent to clients', 'Bytes a second, with the last hour'],
  ['saved', 'Spared origins', 'Bytes that origins did not have to send'],
  ['slow', '99% within', 'Time to answer of the slowest source'],
]

const LIMITS = [['cpu', 'CPU'], ['ram', 'RAM tier', true], ['resident', 'Resident memory'], ['disk', 'Disk', true], ['connections', 'Connections of clients'], ['origins', 'Connections to origins']]
