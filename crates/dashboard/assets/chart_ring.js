// The volume as a ring, after Figure 6 of Maltzahn 1999: the cursor writes clockwise, and the bars
// show how often the objects behind it were hit, from those just written to the oldest.

import { h, s, setText } from './dom.js'
import { percent, whole } from './format.js'
import { openValues } from './dialogs.js'

const CENTRE = 150
const INNER = 82
const OUTER = 138
const SHADES = 5

/** A ring for one disk. */
export class Ring {
  constructor(name) {
    this.name = name
    this.bars = s('g', {})
    this.swept = s('path', { class: 'swept' })
    this.needle = s('g', {}, s('line', { class: 'needle', x1: CENTRE, x2: CENTRE, y1: CENTRE - INNER + 3, y2: CENTRE - OUTER - 4 }), s('path', { class: 'head', d: `M${CENTRE - 1} ${CENTRE - OUTER - 11}l13 6l-13 6z` }))
    this.laps = s('text', { class: 'big', x: CENTRE, y: CENTRE + 2, 'text-anchor': 'middle' })
    this.place = s('text', { x: CENTRE, y: CENTRE + 20, 'text-anchor': 'middle' })
    this.note = s('text', { x: CENTRE, y: CENTRE + 38, 'text-anchor': 'middle' })
    const caption = s('text', { x: CENTRE, y: CENTRE - 24, 'text-anchor': 'middle' }, 'laps')
    const tracks = [INNER - 8, OUTER + 1].map(r => s('circle', { class: 'track', cx: CENTRE, cy: CENTRE, r }))
    const svg = s('svg', { viewBox: '0 0 300 300', 'aria-hidden': 'true' }, ...tracks, this.swept, this.bars, this.needle, caption, this.laps, this.place, this.note)
    this.tip = h('div', { class: 'tip', hidden: true })
    this.spoken = h('p', { class: 'sr', 'aria-live': 'polite' })
    const hide = () => { this.tip.hidden = true }
    const on = { pointermove: event => this.hover(event), pointerleave: hide, blur: hide, keydown: event => this.key(event) }
    this.stage = h('div', { class: 'chart focusable', tabindex: '0', role: 'group', on }, svg, this.tip, this.spoken)
    this.element = h('div', { class: 'ring' }, h('h3', {}, h('bdi', {}, name)), this.stage)
    this.drawn = ''
  }

  /** Draws the cursor at a share of the volume; `behind[0]` are hits of what it wrote last. */
  update({ position = 0, laps = 0 }, behind = []) {
    Object.assign(this, { position, behind })
    setText(this.laps, whole(Math.floor(laps)))
    setText(this.place, `${percent(position)} of this one`)
    this.needle.setAttribute('transform', `rotate(${position * 360} ${CENTRE} ${CENTRE})`)
    this.swept.setAttribute('d', arc(0, position, INNER - 8))
    const key = `${position.toFixed(4)} ${behind.join()}`
    if (key !== this.drawn) this.draw()
    this.drawn = key
    const [fresh, old] = halves(behind)
    setText(this.note, fresh + old ? '' : 'no hits yet')
    this.stage.setAttribute('aria-label', `Ring of ${this.name}: the cursor has gone round ${whole(Math.floor(laps))} times and is at ${percent(position)} of the volume. Hits of the newer half ${whole(fresh)}, of the older half ${whole(old)}. Arrow keys step through the parts, Enter shows the values as a table.`)
  }

  draw() {
    const { behind, position } = this
    const most = Math.max(1, ...behind)
    const share = 1 / Math.max(1, behind.length)
    const bars = behind.map((hits, at) => {
      const size = hits / most
      const bar = s('path', { class: 'bar', d: wedge(position - (at + 0.9) * share, position - (at + 0.1) * share, INNER, INNER + 2 + size * (OUTER - INNER - 2)) })
      bar.style.fill = `var(--heat-${hits ? 1 + Math.min(SHADES - 1, Math.floor(size * SHADES)) : 0})`
      return bar
    })
    this.bars.replaceChildren(...bars)
  }

  hover(event) {
    const box = this.stage.getBoundingClientRect()
    const [x, y] = [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2]
    const turn = (Math.atan2(x, -y) / (2 * Math.PI) + 1) % 1
    this.show(Math.floor(((this.position - turn + 1) % 1) * this.behind.length))
  }

  key(event) {
    if (event.key === 'Enter') openValues(`Hits behind the cursor of ${this.name}`, this.table())
    const move = { ArrowLeft: 1, ArrowRight: -1 }[event.key]
    if (!move || !this.behind.length) return
    event.preventDefault()
    this.show((((this.at ?? -move) + move) + this.behind.length) % this.behind.length)
    setText(this.spoken, this.tip.textContent)
  }

  show(at) {
    if (!(at in this.behind)) return
    this.at = at
    setText(this.tip, `${percent(at / this.behind.length)} of a lap behind the cursor: ${whole(this.behind[at])} hits`)
    this.tip.hidden = false
  }

  table() {
    const lines = this.behind.map((hits, at) => [percent(at / this.behind.length), whole(hits)])
    return { heads: ['Behind the cursor', 'Hits'], lines }
  }
}

function halves(values) {
  const sum = list => list.reduce((total, value) => total + value, 0)
  const middle = Math.ceil(values.length / 2)
  return [sum(values.slice(0, middle)), sum(values.slice(middle))]
}

function point(turn, radius) {
  const angle = turn * 2 * Math.PI
  return `${(CENTRE + Math.sin(angle) * radius).toFixed(2)} ${(CENTRE - Math.cos(angle) * radius).toFixed(2)}`
}

function arc(from, to, radius) {
  const end = Math.min(to, from + 0.9999)
  return `M${point(from, radius)}A${radius} ${radius} 0 ${end - from > 0.5 ? 1 : 0} 1 ${point(end, radius)}`
}

function wedge(from, to, inner, outer) {
  return `M${point(from, inner)}L${point(from, outer)}A${outer} ${outer} 0 0 1 ${point(to, outer)}L${point(to, inner)}A${inner} ${inner} 0 0 0 ${point(from, inner)}Z`
}
