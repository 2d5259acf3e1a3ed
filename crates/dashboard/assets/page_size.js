// Size: the live curve of hit ratio by cache size, with today's size and others beside it.

import { h, rich } from './dom.js'
import { bytes, count, percent, plain } from './format.js'
import { LineChart } from './chart_line.js'
import { panel, remarks, tile, tiles } from './parts.js'
import { powerTicks, roundTicks } from './scale.js'
import { Table } from './table.js'

/** Opens the view. */
export function open({ route }) {
  const view = new SizeView(route)
  return { lead: 'Hit ratios that other sizes of RAM and disk would have', parts: view.parts, query: () => ({}), update: document => view.update(document), close: () => view.chart.close() }
}

class SizeView {
  constructor(route) {
    this.tiles = Object.fromEntries(TILES.map(([name, title, hint]) => [name, tile(title, { spark: false, hint })]))
    const series = [{ name: 'requests', style: 's0' }, { name: 'bytes', style: 's5' }]
    const ticks = domain => powerTicks(domain, 2, 8)
    this.chart = new LineChart({ title: 'Hit ratio by cache size', series, height: 330, x: { format: bytes, log: true, ticks, name: 'Size' }, y: { format: percent, tickFormat: value => `${Math.round(value * 100)}%`, most: 1, ticks: () => roundTicks(0, 0.999, 5) } })
    const columns = [{ key: 'text', label: 'Change', cell: row => row.text }, ...['ram', 'disk'].map(key => ({ key, label: key === 'ram' ? 'RAM' : 'Disk', n: true, cell: row => bytes(row[key]) })),
      { key: 'hit_ratio', label: 'Hits', n: true, cell: row => percent(row.hit_ratio) }, { key: 'gain', label: 'Against today', n: true, cell: row => points(row.gain), tone: row => (row.gain < -0.005 ? 'alarm' : '') }, { key: 'ram_hit_ratio', label: 'From RAM', n: true, cell: row => percent(row.ram_hit_ratio) }, { key: 'byte_hit_ratio', label: 'Byte hits', n: true, cell: row => percent(row.byte_hit_ratio) }]
    this.table = new Table(route, { caption: 'Other sizes', columns, rowKey: row => row.text, empty: 'No forecast yet: the curve needs some thousand requests.' })
    this.curvePanel = panel('Hit ratio by cache size', { end: [this.chart.valuesButton()], label: 'curve' }, this.chart.element)
    this.advice = h('div', {})
    this.advicePanel = panel('Advice', { width: 'w5' }, this.advice)
    this.parts = [tiles(Object.values(this.tiles)), this.curvePanel, panel('What if', { width: 'w7', label: 'what-if' }, this.table.element), this.advicePanel]
  }

  update(size) {
    const now = size.now ?? {}
    const curve = [...(size.curve ?? [])].filter(point => point.bytes > 0).sort((a, b) => a.bytes - b.bytes)
    this.showTiles(size, now)
    this.curvePanel.note(size.sampled_keys ? `from ${count(size.sampled_keys)} sampled keys${size.rate < 1 ? `, one in ${count(1 / size.rate)}` : ', all there are'}; error about ${plain(size.error_points)} points` : 'no keys sampled yet')
    const marks = curve.length ? marksOf(now, size.what_if ?? [], curve) : []
    this.chart.update(curve.map(point => point.bytes), [curve.map(point => point.hit_ratio), curve.map(point => point.byte_hit_ratio)], marks)
    this.table.update((size.what_if ?? []).map(row => ({ ...row, gain: row.hit_ratio - now.hit_ratio_forecast })))
    const advice = size.advice ?? []
    const key = advice.join('\n')
    if (key !== this.told) this.advice.replaceChildren(advice.length ? remarks(advice.map(text => h('li', {}, ...rich(text)))) : h('p', { class: 'empty' }, 'No advice: today’s sizes fit this traffic, or too little of it was seen.'))
    this.told = key
  }

  showTiles(size, now) {
    const { measured, forecast, ram, disk, keys } = this.tiles
    const error = now.hit_ratio_forecast - now.hit_ratio_measured
    const seen = size.requests > 0
    measured.set(percent(seen ? now.hit_ratio_measured : undefined), seen ? 'as it was' : 'no requests yet')
    forecast.set(percent(seen ? now.hit_ratio_forecast : undefined), !seen ? 'no requests yet' : Number.isFinite(error) ? Math.abs(error) < 0.0005 ? 'as it came' : `${points(error)} off` : 'by the curve')
    ram.set(bytes(now.ram), 'limit of the RAM tier')
    disk.set(bytes(now.disk), 'limit of the disks')
    keys.set(count(size.requests), 'requests so far')
  }
}

/** Marks of today's sizes and of the what-if sizes, each at RAM and disk together. */
function marksOf(now, others, curve) {
  const [least, most] = [curve[0].bytes, curve.at(-1).bytes]
  const within = mark => mark.x >= least * 0.999 && mark.x <= most * 1.001
  const sum = size => (size.ram ?? 0) + (size.disk ?? 0)
  const today = [{ x: sum(now), y: now.hit_ratio_forecast, label: 'today', now: true }]
  if (now.ram && now.disk && !others.some(one => sum(one) === now.ram)) today.push({ x: now.ram, label: 'RAM alone' })
  return [...today, ...others.map(one => ({ x: sum(one), y: one.hit_ratio, label: one.text.slice(0, 28) }))].filter(within)
}

function points(difference) {
  if (!Number.isFinite(difference)) return '–'
  const value = Math.round(difference * 1000) / 10
  return value === 0 ? 'the same' : `${value > 0 ? '+' : '−'}${Math.abs(value).toFixed(1)} points`
}

const TILES = [
  ['measured', 'Hit ratio', 'Hit ratio over the time that the curve covers'],
  ['forecast', 'Forecast', 'Hit ratio that the curve says for today’s sizes'],
  ['ram', 'RAM', 'cache.ram'],
  ['disk', 'Disk', 'store.disk'],
  ['keys', 'Seen', 'Requests that the curve was made from'],
]
