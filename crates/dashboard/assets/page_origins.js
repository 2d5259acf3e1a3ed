// Origins: health, latency, errors, connections, and what is served stale in their place.

import { micros, count, plain, rate, span, whole } from './format.js'
import { panel, textField, tile, tiles } from './parts.js'
import { Table, number, setPill } from './table.js'

/** Opens the view. */
export function open({ route }) {
  const all = Object.fromEntries([['up', 'Healthy'], ['rate', 'Requests'], ['errors', 'Errors'], ['slow', '99% within'], ['stale', 'Served stale']].map(([name, title]) => [name, tile(title, { spark: false })]))
  const name = { key: 'name', label: 'Origin', cell: row => row.name, value: row => row.name, ascending: true }
  const state = { key: 'state', label: 'State', value: row => toneOf(row.state), draw: (row, cell) => setPill(cell, row.state, toneOf(row.state)) }
  const columns = [name, { key: 'site', label: 'Site', cell: row => row.site, value: row => row.site, ascending: true }, state,
    { key: 'since_ms', label: 'Since', n: true, cell: row => (span(Math.floor((row.since_ms ?? NaN) / 1000))), value: row => row.since_ms },
    number('requests_per_s', 'Requests', rate), number('errors', 'Errors', whole, { tone: row => (row.errors > 0 ? 'alarm' : 'zero') }), number('p50_us', 'Half within', micros), number('p99_us', '99% within', micros),
    { key: 'connections', label: 'Connections', n: true, value: row => row.connections, cell: row => `${whole(row.connections)}${row.max_connections ? ` of ${whole(row.max_connections)}` : ''}` },
    number('stale_served', 'Served stale', whole), number('requests', 'Since start', count)]
  let seen = []
  let others = 0
  const table = new Table(route, { caption: 'Origins', columns, rowKey: row => `${row.site}\n${row.name}`, order: '-requests', empty: 'No origin has been asked yet.' })
  const show = () => {
    const wanted = route.get('q').toLowerCase()
    const rows = seen.filter(row => `${row.name} ${row.site}`.toLowerCase().includes(wanted))
    table.update(rows)
    section.note(`${whole(rows.length)} shown of ${whole(seen.length + others)}`)
  }
  const filter = textField('Filter origins by name or site', 'Filter origins', route.get('q'), text => {
    route.set({ q: text }, false)
    show()
  })
  const section = panel('Origins', { end: [filter], label: 'origins' }, table.element)
  const update = document => {
    seen = document.origins ?? []
    others = document.others ?? 0
    summarize(all, seen)
    show()
  }
  return { lead: 'Health, latency and errors of the servers behind this node', parts: [tiles(Object.values(all)), section], query: () => ({}), update }
}

function summarize({ up, rate: requests, errors, slow, stale }, origins) {
  const sum = key => origins.reduce((total, one) => total + (one[key] || 0), 0)
  const healthy = origins.filter(one => toneOf(one.state) === 'good').length
  const worst = origins.reduce((most, one) => ((one.p99_us ?? -1) > (most?.p99_us ?? -1) ? one : most), undefined)
  up.set(`${whole(healthy)} of ${whole(origins.length)}`, healthy === origins.length ? 'all of them' : `${whole(origins.length - healthy)} down or doubtful`)
  requests.set(rate(sum('requests_per_s')), `${count(sum('requests'))} since the start`)
  errors.set(whole(sum('errors')), sum('requests') ? `${plain((sum('errors') / sum('requests')) * 100)}% of the requests` : 'no requests')
  slow.set(micros(worst?.p99_us), worst ? `of ${worst.name}`.slice(0, 60) : 'no origin')
  stale.set(count(sum('stale_served')), 'answers')
}

/** Tone of a state by its first word. */
function toneOf(state) {
  if (/^(up|healthy|ok|ready|in|good)\b/i.test(state ?? '')) return 'good'
  return /^(down|unhealthy|out|failed|refus)/i.test(state ?? '') ? 'bad' : 'warn'
}
