// Log: a live tail with filters. The node sends lines only while this view is open.

import { h, setText, visible } from './dom.js'
import { bytes, clock, micros, whole } from './format.js'
import { choice, panel, textField } from './parts.js'
import { addressButton } from './table.js'

/** Most lines on the page, and the pause between drawings. */
const LINES = 300
const DRAW_MS = 250
/** Results of the access log, each in the colour of the source that it stands for. */
const RESULTS = { memory_hit: 'ram', hit: 'disk', stale: 'stale', refresh_unmodified: 'peer', refresh_modified: 'origin', miss: 'origin', collapsed: 'neighbourhood', pass: 'origin', tunnel: 'tunnel', denied: 'error', abandoned: 'tunnel', none: 'tunnel' }

/** Opens the view. */
export function open({ route, set }) {
  const view = new LogView(route, set)
  return { lead: 'The latest requests, newest first', parts: [view.panel], query: () => view.query(), update: document => view.update(document), line: line => view.add(line), skipped: count => view.skip(count), close: () => view.close() }
}

class LogView {
  constructor(route, set) {
    this.route = route
    this.waiting = []
    this.skipped = 0
    const field = (name, label, placeholder) => textField(label, placeholder, route.get(name), text => this.choose({ [name]: text }))
    const results = choice('Result', [['', 'all'], ...Object.keys(RESULTS).map(name => [name, name])], route.get('result'), result => this.choose({ result }))
    const status = field('status', 'Status, such as 404 or 5xx', 'Status: 404, 5xx')
    status.style.width = '11em'
    const filters = [field('url', 'Text in the URL', 'Text in the URL'), status, results, field('site', 'Site', 'Site')]
    this.body = h('tbody', {})
    const heads = [['Time'], ['Client'], ['Method'], ['Status', 'n'], ['Result'], ['Reason'], ['Bytes', 'n'], ['Took', 'n'], ['URL', 'wide']]
    this.table = h('table', { class: 'log' }, h('caption', {}, 'Requests, newest first'), h('thead', {}, h('tr', {}, ...heads.map(([text, name]) => h('th', { scope: 'col', class: name }, text)))), this.body)
    this.none = h('p', { class: 'empty' }, 'No request fits yet.')
    this.shell = h('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Requests, newest first' }, this.table)
    this.panel = panel('Requests', { end: filters, label: 'log' }, this.shell, this.none)
    this.set = set
  }

  query() {
    return Object.fromEntries(['url', 'status', 'result', 'site'].map(name => [name, this.route.get(name)]))
  }

  /** Takes other filters: the list begins anew. */
  choose(changes) {
    this.clear()
    this.set(changes)
  }

  /** The last lines, at the beginning and after a new connection. */
  update(document) {
    this.clear()
    const lines = [...(document.lines ?? [])].sort((a, b) => a.unix_ms - b.unix_ms)
    this.waiting = lines.slice(-LINES)
    this.draw()
  }

  add(line) {
    this.waiting.push(line)
    if (this.waiting.length > LINES) this.waiting.shift()
    this.timer ??= setTimeout(() => this.draw(), DRAW_MS)
  }

  skip(count) {
    this.skipped += count
    this.say()
  }

  draw() {
    clearTimeout(this.timer)
    this.timer = undefined
    const rows = this.waiting.map(row).reverse()
    this.waiting = []
    this.body.prepend(...rows)
    while (this.body.children.length > LINES) this.body.lastChild.remove()
    this.say()
  }

  say() {
    const lines = this.body.children.length
    this.none.hidden = lines > 0
    this.shell.hidden = lines === 0
    this.panel.note(`${whole(lines)} lines${this.skipped ? `; ${whole(this.skipped)} more came too fast to show` : ''}`)
  }

  clear() {
    clearTimeout(this.timer)
    this.timer = undefined
    this.waiting = []
    this.skipped = 0
    this.body.replaceChildren()
    this.say()
  }

  close() {
    clearTimeout(this.timer)
  }
}

function resultCell(result) {
  return h('td', {}, h('i', { class: `swatch ${Object.hasOwn(RESULTS, result) ? RESULTS[result] : 'tunnel'}` }), visible(result))
}

function row(line) {
  const cell = (text, name = '') => {
    const element = h('td', { class: name })
    setText(element, visible(text))
    return element
  }
  const bad = line.status >= 500 ? 'alarm' : ''
  return h('tr', {}, cell(clock(line.unix_ms), 'time'), cell(line.client), cell(line.method), cell(String(line.status), `n ${bad}`), resultCell(line.result), cell(line.reason ?? ''), cell(bytes(line.bytes), 'n'), cell(micros(line.duration_us), 'n'), h('td', { class: 'wide' }, addressButton(line.url ?? '', line.url?.endsWith('…') ? null : line.url)))
}
