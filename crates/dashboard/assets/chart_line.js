// Line chart in SVG: labels stand at the lines' ends and above the plot, never on a curve. Values
// show on hover and by the arrow keys; a button gives them as a table.

import { h, s, setText } from './dom.js'
import { openValues } from './dialogs.js'
import { linear, logarithmic, nearest, roundTicks, rows, spread } from './scale.js'

const EDGE = { bottom: 20, top: 8 }
const ROW = 16

/**
 * A chart. `series` have `name` and `style`, a class of `theme.css`; `x` and `y` have `format` and
 * may have `ticks(least, most)` and `log`; `y.most` and `y.least` widen the axis.
 */
export class LineChart {
  constructor({ title, series, x, y, height = 150, left = 58, gutter = 86, area = false }) {
    Object.assign(this, { title, series, x, y, height, left, gutter, area })
    this.xs = []
    this.ys = series.map(() => [])
    this.marks = []
    this.svg = s('svg', { height, 'aria-hidden': 'true' })
    this.tip = h('div', { class: 'tip', hidden: true })
    this.spoken = h('p', { class: 'sr', 'aria-live': 'polite' })
    const on = { pointermove: event => this.hover(event), pointerleave: () => this.leave(), keydown: event => this.step(event), blur: () => this.leave() }
    this.stage = h('div', { class: 'chart focusable', tabindex: '0', role: 'group', on }, this.svg, this.tip, this.spoken)
    this.element = this.stage
    this.width = 0
    this.watcher = new ResizeObserver(([entry]) => this.resize(Math.round(entry.contentRect.width)))
    this.watcher.observe(this.stage)
  }

  /** Draws new values: `xs` ascending, one list a series, `null` where nothing is known. */
  update(xs, ys, marks = []) {
    Object.assign(this, { xs, ys, marks })
    this.stage.setAttribute('aria-label', this.summary())
    if (this.button) this.button.disabled = xs.length === 0
    if (this.width) this.draw()
  }

  /** Button that opens the values as a table. */
  valuesButton() {
    const open = () => openValues(this.title, this.table())
    this.button = h('button', { type: 'button', class: 'plain small', 'aria-label': `Values of ${this.title}`, disabled: true, on: { click: open } }, 'Values')
    return this.button
  }

  close() {
    this.watcher.disconnect()
  }

  table() {
    const heads = [this.x.name ?? 'Time', ...this.series.map(one => one.name)]
    const lines = this.xs.map((x, at) => [this.x.format(x), ...this.ys.map(values => this.y.format(values[at]))])
    return { heads, lines: lines.reverse() }
  }

  summary() {
    const last = this.series.map((one, at) => `${one.name} ${this.y.format(lastKnown(this.ys[at]))}`)
    const marks = this.marks.map(mark => `${mark.label} at ${this.x.format(mark.x)}`)
    return `${this.title}. Last values: ${[...last, ...marks].join(', ')}. Arrow keys step through the values.`
  }

  resize(width) {
    if (width === this.width || !width) return
    this.width = width
    this.draw()
  }

  draw() {
    const { svg, width, height } = this
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`)
    svg.setAttribute('width', width)
    const right = width - this.gutter
    const labels = this.markLabels(right)
    const top = EDGE.top + (labels.length ? ROW * (1 + Math.max(...labels.map(label => label.row))) : 0)
    this.plot = { left: this.left, right, top, bottom: height - EDGE.bottom }
    if (!this.xs.length) {
      svg.replaceChildren(s('text', { x: width / 2, y: height / 2, 'text-anchor': 'middle' }, 'No values yet'))
      return
    }
    const ticks = this.scales()
    this.cross = s('g', {})
    svg.replaceChildren(...this.axes(ticks), ...this.drawMarks(labels), ...this.lines(), ...this.ends(), this.cross)
  }

  scales() {
    const { plot } = this
    const known = this.ys.flat().filter(Number.isFinite)
    const most = Math.max(this.y.most ?? 0, ...known, 1e-9)
    const ticks = this.y.ticks ? this.y.ticks(this.y.least ?? 0, most) : roundTicks(this.y.least ?? 0, most, this.height > 200 ? 6 : 3)
    const domain = this.y.domain ?? [ticks[0], ticks.at(-1)]
    this.yAt = this.y.log ? logarithmic(domain, [plot.bottom, plot.top]) : linear(domain, [plot.bottom, plot.top])
    this.xAt = this.xScale(plot.right)
    return ticks
  }

  xScale(right) {
    const domain = this.x.domain ?? [this.xs[0], this.xs.at(-1)]
    const range = [this.left, right]
    return this.x.log ? logarithmic(domain, range) : linear(domain, range)
  }

  axes(ticks) {
    const { left, right, bottom } = this.plot
    const parts = ticks.flatMap(value => {
      const y = Math.round(this.yAt.at(value))
      return [s('line', { class: 'grid', x1: left, x2: right, y1: y, y2: y }), s('text', { x: left - 6, y: y + 4, 'text-anchor': 'end' }, (this.y.tickFormat ?? this.y.format)(value))]
    })
    let free = -Infinity
    for (const value of this.x.ticks(this.xAt.domain, Math.max(2, Math.floor((right - left) / 90)))) {
      const x = this.xAt.at(value)
      const text = (this.x.tickFormat ?? this.x.format)(value)
      const half = text.length * 3.2
      if (x - half < free || x + half > this.width) continue
      free = x + half + 10
      parts.push(s('line', { class: 'axis', x1: x, x2: x, y1: bottom, y2: bottom + 4 }), s('text', { x, y: bottom + 16, 'text-anchor': 'middle' }, text))
    }
    return [...parts, s('line', { class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom })]
  }

  lines() {
    return this.series.flatMap((one, index) => {
      const path = this.path(this.ys[index], one)
      const line = s('path', { class: `line ${one.style}`, d: path })
      return this.area && index === 0 ? [this.under(one, this.ys[index]), line] : [line]
    })
  }

  /**
   * Path of the known values. `null` is a gap, `undefined` no value at this place. A value between
   * gaps is a dot: a line of no length with round ends.
   */
  path(values) {
    return this.runs(values).map(run => `M${run.map(place => place.map(fixed).join(' ')).join('L')}${run.length > 1 ? '' : 'h0'}`).join('')
  }

  /** Places of the known values, cut at the gaps. */
  runs(values) {
    const runs = [[]]
    values.forEach((value, at) => {
      if (value === undefined) return
      if (this.holds(value)) runs.at(-1).push([this.xAt.at(this.xs[at]), this.yAt.at(value)])
      else runs.push([])
    })
    return runs.filter(run => run.length)
  }

  /** Whether the vertical axis has a place for a value. */
  holds(value) {
    return Number.isFinite(value) && (!this.y.log || value > 0)
  }

  under(one, values) {
    const kept = values.map((value, at) => [this.xs[at], value]).filter(([, value]) => Number.isFinite(value))
    if (kept.length < 2) return s('path', {})
    const points = kept.map(([x, value]) => `${this.xAt.at(x).toFixed(1)} ${this.yAt.at(value).toFixed(1)}`)
    const foot = this.plot.bottom
    return s('path', { class: `area ${one.style}`, d: `M${this.xAt.at(kept[0][0])} ${foot}L${points.join('L')}L${this.xAt.at(kept.at(-1)[0])} ${foot}Z` })
  }

  /** Names at the right, each with the place of its line's last value. */
  ending() {
    const { right } = this.plot
    const found = this.series.map((one, index) => ({ one, values: this.ys[index], at: lastIndex(this.ys[index]) }))
    return found.filter(end => end.at >= 0).map(({ one, values, at }) => ({ name: one.name, style: one.style, from: right, y: this.yAt.at(values[at]) }))
  }

  /** Draws these names, moved apart, each with a short leader. */
  ends() {
    const { right, top, bottom } = this.plot
    const found = this.ending()
    const places = spread(found.map(end => end.y), 14, [top + 4, bottom - 2])
    return found.flatMap((end, at) => [
      s('path', { class: `lead ${end.style}`, d: `M${fixed(end.from + 1)} ${fixed(end.y)}L${right + 8} ${fixed(places[at])}` }),
      ...this.name(end, right + 11, places[at]),
    ])
  }

  /** A name beside the plot. */
  name({ name, style }, x, y) {
    return [s('text', { class: `end ${style}`, x, y: y + 4 }, name)]
  }

  /** Labels of marks in rows above the plot. */
  markLabels(right) {
    if (!this.marks.length || !this.xs.length) return []
    const scale = this.xScale(right)
    const labels = this.marks.map(mark => {
      const x = Math.min(Math.max(scale.at(mark.x), this.left), right)
      const long = mark.label.length * 6 + 8
      const turned = x + long > this.width
      return { mark, x, turned, from: turned ? x - long : x, to: turned ? x : x + long, row: 0 }
    })
    rows(labels)
    return labels
  }

  drawMarks(labels) {
    const deepest = Math.max(0, ...labels.map(label => label.row))
    return labels.flatMap(({ mark, x, turned, row }) => {
      const y = EDGE.top + 6 + (deepest - row) * ROW
      const parts = [
        s('line', { class: `mark ${mark.now ? 'now' : ''}`, x1: x, x2: x, y1: y - 9, y2: this.plot.bottom }),
        s('text', { class: mark.now ? 'strong' : '', x: turned ? x - 5 : x + 5, y, 'text-anchor': turned ? 'end' : 'start' }, mark.label),
      ]
      if (Number.isFinite(mark.y)) parts.push(s('circle', { class: 'point', cx: x, cy: this.yAt.at(mark.y), r: 4 }))
      return parts
    })
  }

  hover(event) {
    if (!this.xs.length || !this.plot) return
    const place = event.clientX - this.stage.getBoundingClientRect().left
    this.show(nearest(this.xs, this.xAt.back(place)))
    this.group?.forEach(other => other !== this && other.show(this.at))
  }

  step(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }
    const move = moves[event.key]
    if (move === undefined || !this.xs.length) return
    event.preventDefault()
    const from = this.at ?? this.xs.length - (move > 0 ? 1 : 0)
    this.show(Math.max(0, Math.min(this.xs.length - 1, from + move)))
    setText(this.spoken, this.tip.textContent)
  }

  leave() {
    this.hide()
    this.group?.forEach(other => other.hide())
  }

  hide() {
    this.at = undefined
    this.tip.hidden = true
    this.cross?.replaceChildren()
  }

  /** Shows the values at an index: a line, a dot a series, and their numbers. */
  show(at) {
    if (!this.plot || !this.xAt || at >= this.xs.length) return
    this.at = at
    const x = this.xAt.at(this.xs[at])
    const known = this.series.map((one, index) => [one, this.ys[index][at]]).filter(([, value]) => Number.isFinite(value))
    const dots = known.map(([one, value]) => s('circle', { class: `dot ${one.style}`, cx: x, cy: this.yAt.at(value), r: 3.5 }))
    this.cross.replaceChildren(s('line', { class: 'cross', x1: x, x2: x, y1: this.plot.top, y2: this.plot.bottom }), ...dots)
    const line = (one, value) => h('div', {}, h('span', {}, h('i', { class: `swatch ${one.style}` }), `${one.name} `), h('b', {}, this.y.format(value)))
    this.tip.replaceChildren(h('b', {}, `${this.x.format(this.xs[at])} `), ...known.map(([one, value]) => line(one, value)))
    this.tip.hidden = false
    const leftSide = x > this.width / 2
    this.tip.style.left = leftSide ? '' : `${x + 12}px`
    this.tip.style.right = leftSide ? `${this.width - x + 12}px` : ''
  }
}

/** A key of line styles, for charts without room at their right. */
export function lineKey(series) {
  const sample = one => s('svg', { viewBox: '0 0 26 10', 'aria-hidden': 'true' }, s('line', { class: one.style, x1: 0, x2: 26, y1: 5, y2: 5 }))
  return h('ul', { class: 'key' }, ...series.map(one => h('li', {}, sample(one), one.name)))
}

const fixed = place => place.toFixed(1)
const lastIndex = values => values.findLastIndex(Number.isFinite)
const lastKnown = values => values[lastIndex(values)]
