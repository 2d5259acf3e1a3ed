// The line chart for figures: up to twelve lines that colour, dash and marks tell apart, steps,
// points, errors and levels. Names stand at the right, or below where the page is narrow.

import { h, s, visible } from './dom.js'
import { LineChart } from './chart_line.js'
import { MARKS } from './marks.js'

/**
 * A chart of figures. A series also has `mark`, `open`, and `shape`: `curve`, `dotted`, `steps` or
 * `points`. `errors` are upright lines, `{ style, x, low, high }`; `levels` are `{ y, label }`.
 */
export class PlotChart extends LineChart {
  constructor({ errors = [], levels = [], ...options }) {
    super({ ...options, series: options.series.map(one => ({ ...one, name: visible(one.name) })) })
    Object.assign(this, { errors, levels: levels.map(level => ({ ...level, label: visible(level.label) })) })
    const longest = Math.max(4, ...this.names().map(one => one.name.length))
    this.left = Math.max(58, 14 + 6.6 * Math.max(...options.y.ticks().map(value => options.y.tickFormat(value).length)))
    this.wished = Math.min(230, 40 + longest * 6.4)
    this.key = h('ul', { class: 'key', hidden: true }, ...this.names().map(one => h('li', {}, sample(one), one.name)))
    const above = h('p', { class: 'axis-name' }, `↑ ${options.y.name}`)
    const below = h('p', { class: 'axis-name after' }, `${options.x.name} →`)
    this.element = h('div', { class: 'plot' }, above, this.stage, below, this.key)
  }

  names() {
    return [...this.series.filter(one => one.name), ...this.levels.map(level => ({ name: level.label, style: 'level' }))]
  }

  resize(width) {
    this.isNarrow = this.wished > width * 0.36
    this.gutter = this.isNarrow ? 16 : this.wished
    this.key.hidden = !this.isNarrow
    super.resize(width)
  }

  /** Keeps values beyond the ends of an axis at its edge. */
  scales() {
    const ticks = super.scales()
    const { left, right, top, bottom } = this.plot
    const kept = (scale, low, high) => ({ ...scale, at: value => Math.min(high, Math.max(low, scale.at(value))) })
    Object.assign(this, { xAt: kept(this.xAt, left, right), yAt: kept(this.yAt, top, bottom) })
    return ticks
  }

  ending() {
    if (this.isNarrow) return []
    const { right } = this.plot
    const named = this.series.map((one, index) => ({ ...one, values: this.ys[index] })).filter(one => one.name)
    const lines = named.map(one => ({ ...one, at: one.values.findLastIndex(Number.isFinite) })).filter(one => one.at >= 0)
    const levels = this.levels.map(level => ({ name: level.label, style: 'level', from: right, y: this.yAt.at(level.y) }))
    return [...lines.map(one => ({ ...one, from: this.xAt.at(this.xs[one.at]), y: this.yAt.at(one.values[one.at]) })), ...levels]
  }

  name(one, x, y) {
    const drawn = one.mark === undefined ? [] : [s('path', { class: `mark-of ${one.style}${one.open ? ' open' : ''}`, d: MARKS[one.mark], transform: `translate(${x + 4} ${y})` })]
    return [...drawn, ...super.name(one, drawn.length ? x + 13 : x, y)]
  }

  path(values, one) {
    if (one.shape === 'points') return ''
    if (one.shape !== 'steps') return super.path(values)
    const stepped = run => run.map(([x, y], at) => (at ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} ${y.toFixed(1)}`)).join('')
    return this.runs(values).map(run => (run.length > 1 ? stepped(run) : `${stepped(run)}h0`)).join('')
  }

  lines() {
    const { left, right } = this.plot
    const levels = this.levels.map(level => s('line', { class: 'level', x1: left, x2: right, y1: this.yAt.at(level.y), y2: this.yAt.at(level.y) }))
    const errors = this.errors.map(error => s('line', { class: `interval ${error.style}`, x1: this.xAt.at(error.x), x2: this.xAt.at(error.x), y1: this.yAt.at(error.low), y2: this.yAt.at(error.high) }))
    return [...levels, ...errors, ...super.lines(), ...this.series.flatMap((one, index) => this.marksOf(one, this.ys[index], index))]
  }

  /** Marks on a line: on each value of dots and points, else now and then. */
  marksOf(one, values, index) {
    const isEach = one.shape === 'dotted' || one.shape === 'points'
    let free = this.plot.left + (isEach || this.series.length === 1 ? 0 : 7 * index)
    return values.flatMap((value, at) => {
      if (!Number.isFinite(value)) return []
      const x = this.xAt.at(this.xs[at])
      if (!this.holds(value)) return [s('circle', { class: `empty ${one.style}`, cx: x, cy: this.plot.bottom, r: 3 })]
      if (!isEach && (x < free || this.series.length === 1)) return []
      free = x + MARK_GAP
      return [s('path', { class: `mark-of ${one.style}${one.open ? ' open' : ''}`, d: MARKS[one.mark], transform: `translate(${x.toFixed(1)} ${this.yAt.at(value).toFixed(1)})` })]
    })
  }
}

function sample(one) {
  const mark = one.mark === undefined ? null : s('path', { class: `mark-of ${one.style}${one.open ? ' open' : ''}`, d: MARKS[one.mark], transform: 'translate(13 5)' })
  return s('svg', { viewBox: '0 0 26 10', 'aria-hidden': 'true', class: 'chart' }, s('line', { class: one.style, x1: 0, x2: 26, y1: 5, y2: 5 }), mark)
}

/** Pixels between the marks of a line with many values. */
const MARK_GAP = 84
