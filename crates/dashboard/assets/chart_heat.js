// Heat map of latency: columns are times, rows are classes of latency, colour is the number of
// answers on a logarithmic scale. One map a source, all with the same scale.

import { h, setText } from './dom.js'
import { micros, quantile, span, whole } from './format.js'
import { openValues } from './dialogs.js'
import { SOURCES, sourceClass, sourceName } from './parts.js'

const STEPS = 6
const SPAN_S = 600
const HEIGHT = 124
const FOOT = 14
const LEFT = 46

/** Heat maps of all sources that answered in the last minutes. */
export class HeatMaps {
  constructor() {
    this.maps = new Map()
    this.element = h('div', { class: 'heats' })
    this.none = h('p', { class: 'empty' }, 'No answers in the last ten minutes.')
    this.shell = h('div', {}, this.element, this.none)
    this.redraw = () => this.maps.forEach(map => map.draw())
    addEventListener('shoal:theme', this.redraw)
  }

  update({ edges_us: edges = [], column_s: columnS = 10, sources = {} }) {
    const busy = SOURCES.map(([name]) => name).filter(name => (sources[name] ?? []).some(column => column.some(Boolean)))
    const most = Math.max(1, ...busy.map(name => sources[name].reduce((top, column) => Math.max(top, ...column), 0)))
    for (const name of busy) {
      if (!this.maps.has(name)) this.maps.set(name, new HeatMap(name))
      this.maps.get(name).update(edges, sources[name], most, columnS)
    }
    for (const name of this.maps.keys()) if (!busy.includes(name)) this.maps.delete(name)
    const wanted = busy.map(name => this.maps.get(name).element)
    if (wanted.length !== this.element.children.length || wanted.some((map, at) => map !== this.element.children[at])) this.element.replaceChildren(...wanted)
    this.none.hidden = busy.length > 0
  }

  close() {
    removeEventListener('shoal:theme', this.redraw)
  }
}

/** Key of the colours. */
export function ramp() {
  const colours = Array.from({ length: STEPS }, (_, step) => {
    const mark = h('i', {})
    mark.style.background = `var(--heat-${step})`
    return mark
  })
  return h('span', { class: 'ramp' }, 'none', h('span', {}, ...colours), 'most')
}

class HeatMap {
  constructor(name) {
    this.name = name
    this.figures = h('span', { class: 'muted' })
    const title = h('h3', {}, h('span', {}, h('i', { class: `swatch ${sourceClass(name)}` }), sourceName(name)), this.figures)
    this.canvas = h('canvas', { height: HEIGHT, 'aria-hidden': 'true' })
    this.tip = h('div', { class: 'tip', hidden: true })
    this.spoken = h('p', { class: 'sr', 'aria-live': 'polite' })
    const hide = () => { this.tip.hidden = true }
    const on = { pointermove: event => this.hover(event), pointerleave: hide, blur: hide, keydown: event => this.key(event) }
    this.stage = h('div', { class: 'chart focusable', tabindex: '0', role: 'group', on }, this.canvas, this.tip, this.spoken)
    this.element = h('div', {}, title, this.stage)
    this.cell = undefined
  }

  update(bounds, known, most, columnS) {
    const missing = Math.max(0, Math.round(SPAN_S / columnS) - known.length)
    const columns = [...Array.from({ length: missing }, () => []), ...known]
    // The last class has no upper edge.
    const edges = (known[0]?.length ?? 0) > bounds.length ? [...bounds, Infinity] : bounds
    Object.assign(this, { edges, columns, most, columnS })
    const sums = edges.map((_, bucket) => columns.reduce((sum, column) => sum + (column[bucket] ?? 0), 0))
    const [middle, slow] = [quantile(sums, edges, 0.5), quantile(sums, edges, 0.99)]
    setText(this.figures, `half ${bound(middle)} · 99% ${bound(slow)}`)
    const total = sums.reduce((sum, value) => sum + value, 0)
    this.stage.setAttribute('aria-label', `Latency of answers from ${sourceName(this.name)}: ${whole(total)} answers in ${span(columns.length * columnS)}, half within ${bound(middle)}, 99% within ${bound(slow)}. Arrow keys step through the cells, Enter shows the values as a table.`)
    this.draw()
  }

  draw() {
    const { canvas, edges, columns } = this
    const width = this.stage.clientWidth
    if (!width || !edges?.length) {
      if (edges?.length) requestAnimationFrame(() => { if (this.stage.clientWidth) this.draw() })
      return
    }
    const density = Math.min(devicePixelRatio || 1, 2)
    if (canvas.width !== width * density) canvas.width = width * density
    if (canvas.height !== HEIGHT * density) canvas.height = HEIGHT * density
    canvas.style.height = `${HEIGHT}px`
    const pen = canvas.getContext('2d')
    pen.setTransform(density, 0, 0, density, 0, 0)
    pen.clearRect(0, 0, width, HEIGHT)
    const colours = palette(this.stage)
    const [across, down] = this.sizes(width)
    columns.forEach((column, x) => edges.forEach((_, bucket) => {
      pen.fillStyle = colours.steps[level(column[bucket], this.most)]
      const left = Math.round(LEFT + x * across)
      const top = Math.round((edges.length - 1 - bucket) * down)
      pen.fillRect(left, top, Math.round(LEFT + (x + 1) * across) - left, Math.round((edges.length - bucket) * down) - top)
    }))
    this.labels(pen, colours, down)
  }

  labels(pen, colours, down) {
    pen.fillStyle = colours.text
    pen.font = `10px ${colours.font}`
    pen.textAlign = 'right'
    pen.textBaseline = 'middle'
    const every = Math.max(1, Math.ceil(this.edges.length / 6))
    for (let bucket = 0; bucket < this.edges.length; bucket += every) {
      const y = (this.edges.length - 0.5 - bucket) * down
      pen.fillText(bound(this.edges[bucket]), LEFT - 5, Math.max(6, Math.min(HEIGHT - FOOT - 5, y)))
    }
    pen.textAlign = 'left'
    pen.fillText(`${span(this.columns.length * this.columnS)} ago`, LEFT, HEIGHT - 5)
    pen.textAlign = 'right'
    pen.fillText('now', this.stage.clientWidth, HEIGHT - 5)
  }

  sizes(width = this.stage.clientWidth) {
    return [(width - LEFT) / Math.max(1, this.columns.length), (HEIGHT - FOOT) / this.edges.length]
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect()
    const [across, down] = this.sizes()
    const x = Math.floor((event.clientX - box.left - LEFT) / across)
    const bucket = this.edges.length - 1 - Math.floor((event.clientY - box.top) / down)
    if (x < 0) this.tip.hidden = true
    else this.show(x, bucket)
  }

  key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }
    if (event.key === 'Enter') openValues(`Latency of answers from ${sourceName(this.name)}`, this.table())
    const move = moves[event.key]
    if (!move) return
    event.preventDefault()
    const [x, bucket] = this.cell ?? [this.columns.length, 0]
    this.show(x + move[0], bucket + move[1])
    setText(this.spoken, this.tip.textContent)
  }

  show(x, bucket) {
    const column = Math.max(0, Math.min(this.columns.length - 1, x))
    const row = Math.max(0, Math.min(this.edges.length - 1, bucket))
    this.cell = [column, row]
    const least = row ? micros(this.edges[row - 1]) : '0'
    setText(this.tip, `${this.ago(column)}: ${whole(this.columns[column][row] ?? 0)} answers of ${least} to ${bound(this.edges[row])}`)
    this.tip.hidden = false
    const [across] = this.sizes()
    const place = LEFT + column * across
    const leftSide = place > this.stage.clientWidth / 2
    this.tip.style.left = leftSide ? '' : `${place + across + 6}px`
    this.tip.style.right = leftSide ? `${this.stage.clientWidth - place + 6}px` : ''
  }

  ago(column) {
    const back = (this.columns.length - 1 - column) * this.columnS
    return back ? `${span(back)} ago` : 'now'
  }

  table() {
    const heads = ['Time', ...this.edges.map(edge => `≤ ${bound(edge)}`)]
    const line = (column, at) => [this.ago(at), ...this.edges.map((_, bucket) => whole(column[bucket] ?? 0))]
    return { heads, lines: this.columns.map(line).reverse() }
  }
}

const bound = edge => (edge === Infinity ? 'more' : micros(edge))

/** Step of the colour: 0 for none, then by the logarithm of the count. */
function level(value, most) {
  if (!value) return 0
  return 1 + Math.min(STEPS - 2, Math.floor((Math.log1p(value) / Math.log1p(most)) * (STEPS - 1)))
}

/** The theme's colours as the browser resolves them. */
function palette(element) {
  const probe = h('i', { hidden: true })
  element.append(probe)
  const resolve = name => {
    probe.style.color = `var(${name})`
    return getComputedStyle(probe).color
  }
  const steps = Array.from({ length: STEPS }, (_, step) => resolve(`--heat-${step}`))
  const colours = { steps, text: resolve('--muted'), font: getComputedStyle(element).fontFamily }
  probe.remove()
  return colours
}

