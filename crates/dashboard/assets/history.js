// The last hours from the node's history, as charts whose values show together.

import { h } from './dom.js'
import { byteRate, bytes, clock, count, hours, micros, moment, percent, plain } from './format.js'
import { buttons, panel } from './parts.js'
import { LineChart } from './chart_line.js'
import { fetchJson } from './live.js'
import { byteTicks, powerTicks, roundTicks, timeTicks } from './scale.js'

const [HOUR, DAY] = ['3600', '86400']
const RANGES = [[HOUR, '1 h'], ['21600', '6 h'], [DAY, '24 h']]
const POINTS = 360
const AGAIN_MS = 30000

/** Fetches a history: `times` in Unix milliseconds and the `series` by name. */
export async function fetchHistory(seconds, points, signal) {
  const { start, step_s: step, series } = await fetchJson(`history?seconds=${seconds}&points=${points}`, signal)
  const length = Math.max(0, ...Object.values(series).map(values => values.length))
  const every = Math.max(1, Math.ceil(length / (points * 2)))
  const thin = values => values.filter((_, at) => at % every === 0)
  const times = thin(Array.from({ length }, (_, at) => (start + at * step) * 1000))
  return { times, series: Object.fromEntries(Object.entries(series).map(([name, values]) => [name, thin(values)])) }
}

/** Panel of charts of the last hour, six hours or day, which the address keeps as `range`. */
export class HistoryPanel {
  constructor(route, kinds) {
    this.route = route
    this.aborted = new AbortController()
    this.normal = DAY
    this.charts = kinds.map(kind => CHARTS[kind]()).map(({ chart, from }) => ({ chart, from }))
    const all = this.charts.map(({ chart }) => chart)
    all.forEach(chart => { chart.group = all })
    this.choices = h('div', {})
    const cells = all.map(chart => h('div', {}, h('h3', {}, chart.title, chart.valuesButton()), chart.element))
    this.element = panel('History', { end: [this.choices], label: 'history' }, h('div', { class: 'charts' }, ...cells))
    this.choices.replaceChildren(this.spans())
    this.watch = new IntersectionObserver(seen => this.near(seen.at(-1).isIntersecting), { rootMargin: '150px' })
    this.watch.observe(this.element)
  }

  /** Asks for the history only while the charts are on the screen. */
  near(shown) {
    this.shown = shown
    clearTimeout(this.timer)
    if (shown) this.load()
  }

  /** Of a node that is young a day would show a few dots. */
  isYoung(values) {
    return this.range === DAY && !this.route.get('range') && values.filter(Number.isFinite).length < values.length / 24
  }

  shorten() {
    this.normal = HOUR
    this.choices.replaceChildren(this.spans())
    return this.load()
  }

  spans() {
    return buttons('Span of the history', RANGES, this.range, range => this.choose(range))
  }

  get range() {
    const asked = this.route.get('range')
    return RANGES.some(([name]) => name === asked) ? asked : this.normal
  }

  choose(range) {
    this.route.set({ range }, false)
    this.choices.replaceChildren(this.spans())
    this.load()
    this.choices.querySelector('[aria-pressed="true"]')?.focus()
  }

  async load() {
    clearTimeout(this.timer)
    try {
      const { times, series } = await fetchHistory(this.range, POINTS, this.aborted.signal)
      if (this.isYoung(series.requests ?? [])) return this.shorten()
      for (const { chart, from } of this.charts) chart.update(times, from(series))
      this.element.note(times.length ? `${moment(times[0])} to ${clock(times.at(-1))}` : '')
    } catch (error) {
      if (this.aborted.signal.aborted) return
      this.element.note(`The history is not there: ${error.message}`)
    }
    if (this.shown) this.timer = setTimeout(() => this.load(), AGAIN_MS)
  }

  close() {
    this.aborted.abort()
    this.watch.disconnect()
    clearTimeout(this.timer)
    this.charts.forEach(({ chart }) => chart.close())
  }
}

const TIME = { format: moment, tickFormat: hours, ticks: timeTicks, name: 'Time' }
const ratio = (part, all = []) => all.map((value, at) => (value > 0 && Number.isFinite(part?.[at]) ? part[at] / value : null))
const line = (title, series, y, from, more = {}) => () => ({ chart: new LineChart({ title, series, x: TIME, y, ...more }), from })
const styled = (...list) => list.map(([name, style]) => ({ name, style }))
const decades = (least, most) => powerTicks([10 ** Math.floor(Math.log10(Math.max(least, 1))), 10 ** Math.ceil(Math.log10(Math.max(most, 10)))], 10, 5)

/** Charts by name; `from` takes what the chart shows out of the series. */
const CHARTS = {
  requests: line('Requests a second', styled(['requests', 's0'], ['hits', 's1'], ['errors', 's3']), { format: count },
    series => [series.requests ?? [], series.hits ?? [], series.errors ?? []], { area: true }),
  ratios: line('Hit ratios', styled(['requests', 's0'], ['bytes', 's5']), { format: percent, tickFormat: value => `${Math.round(value * 100)}%`, most: 1, ticks: () => roundTicks(0, 0.999, 4) },
    series => [ratio(series.hits, series.requests), ratio(series.hit_bytes, series.bytes)]),
  bytes: line('Bytes a second', styled(['to clients', 's2'], ['from origins', 's1']), { format: byteRate, ticks: (_, most) => byteTicks(most, 3) },
    series => [series.bytes ?? [], series.origin_bytes ?? []], { area: true }),
  latency: line('Time to answer', styled(['half within', 's0'], ['99% within', 's3']), { format: micros, log: true, least: 10, ticks: (least, most) => decades(least, most) },
    series => [series.p50_us ?? [], series.p99_us ?? []]),
  machine: line('CPU, in cores', styled(['cores', 's4']), { format: plain }, series => [(series.cpu_ms ?? []).map(value => (value === null ? null : value / 1000))], { area: true }),
  memory: line('Resident memory', styled(['memory', 's5']), { format: bytes, ticks: (_, most) => byteTicks(most, 3) }, series => [series.rss_bytes ?? []], { area: true }),
  ios: line('Disk I/Os a second', styled(['reads', 's2'], ['writes', 's1']), { format: count }, series => [series.disk_reads ?? [], series.disk_writes ?? []]),
  io_bytes: line('Disk bytes a second', styled(['read', 's2'], ['written', 's1']), { format: byteRate, ticks: (_, most) => byteTicks(most, 3) },
    series => [series.disk_read_bytes ?? [], series.disk_write_bytes ?? []]),
}
