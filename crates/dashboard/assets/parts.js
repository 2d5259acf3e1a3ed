// Small parts of views: panels, tiles with sparklines, meters, pills, choices.

import { h, s, setText, setClass, setWidth } from './dom.js'
import { parted } from './format.js'

/** Sources of answers, in the order of their cost, with their words. */
export const SOURCES = [
  ['ram', 'RAM'], ['disk', 'Disk'], ['neighbourhood', 'Neighbourhood'], ['peer', 'Peer'],
  ['origin', 'Origin'], ['stale', 'Stale'], ['error', 'Error'], ['tunnel', 'Tunnel'], ['own', 'This node'],
]
const KNOWN = new Map(SOURCES)

/** Class of a source: only names that are known become classes. */
export const sourceClass = name => (KNOWN.has(name) ? name : 'tunnel')
export const sourceName = name => KNOWN.get(name) ?? name

let numbered = 0

/** A panel with a heading; `end` stands at the right of its head. */
export function panel(title, { width = '', note = '', end = [], label } = {}, ...children) {
  const id = `panel-${(numbered += 1)}`
  const noteElement = h('p', { class: 'note' }, note)
  const head = h('header', {}, h('h2', { id }, title), noteElement, end.length ? h('div', { class: 'end' }, ...end) : null)
  const element = h('section', { class: `panel ${width}`, 'aria-labelledby': id, 'data-part': label }, head, ...children)
  return Object.assign(element, { note: text => setText(noteElement, text) })
}

/** A large number with a line under it and, if wanted, its last hour as a curve. */
export function tile(title, { spark = true, hint } = {}) {
  const number = h('span', {})
  const unit = h('small', {})
  const sub = h('dd', { class: 'sub' })
  const line = s('path', { class: 'spark-line' })
  const area = s('path', { class: 'spark-area' })
  const drawing = spark && s('svg', { viewBox: '0 0 100 30', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, area, line)
  const element = h('div', { class: `tile${spark ? '' : ' bare'}`, title: hint }, h('dt', {}, title), h('dd', { class: 'value' }, number, unit), sub, drawing)
  let values = []
  return {
    element,
    set(text, below) {
      const [amount, name] = parted(text)
      setText(number, amount)
      setText(unit, name)
      setText(sub, below)
    },
    /** Draws past values, and the present one at the end. */
    curve(past) {
      values = past
      this.now(values.at(-1))
    },
    now(value) {
      if (!drawing) return
      const points = sparkPoints(value === undefined ? values : [...values.slice(1), value])
      line.setAttribute('d', points.length ? `M${points.join('L')}` : '')
      area.setAttribute('d', points.length ? `M${points[0].split(' ')[0]} 30L${points.join('L')}L${points.at(-1).split(' ')[0]} 30Z` : '')
    },
  }
}

/** Tiles in a row, as a list of terms and values. */
export const tiles = list => h('dl', { class: 'tiles' }, ...list.map(one => one.element))

/** A bar beside its limit; `fills` says that it is full in normal work, as a cache is. */
export function meter(title, fills = false) {
  const value = h('b', {})
  const fill = h('i', {})
  const element = h('dl', { class: 'meter' }, h('dt', {}, h('span', {}, title), value), h('dd', { 'aria-hidden': 'true' }, fill))
  return {
    element,
    set(used, limit, text) {
      const share = limit > 0 ? used / limit : 0
      setText(value, text)
      setWidth(fill, share)
      setClass(element, 'high', !fills && share >= 0.85 && share < 0.97)
      setClass(element, 'full', !fills && share >= 0.97)
    },
  }
}

/** A word in a coloured frame; the word says it all without the colour. */
export const pill = (text, tone = '') => h('span', { class: `pill ${tone}` }, text)

/** A choice with a label, whose value stands in the address. */
export function choice(label, options, value, onChange) {
  const select = h('select', { on: { change: () => onChange(select.value) } }, ...options.map(([name, text]) => h('option', { value: name }, text)))
  select.value = value
  return h('label', { class: 'field' }, label, select)
}

/** Replaces the options of a choice, keeping what is chosen. */
export function setOptions(field, options, value) {
  const select = field.querySelector('select')
  const wanted = options.map(([name]) => name).join('\n')
  if (select.dataset.names === wanted) return
  select.dataset.names = wanted
  select.replaceChildren(...options.map(([name, text]) => h('option', { value: name }, text)))
  select.value = value
}

/** A field for text that acts when the typing rests. */
export function textField(label, placeholder, value, onChange) {
  let timer
  const later = () => {
    clearTimeout(timer)
    timer = setTimeout(() => onChange(input.value), 300)
  }
  const input = h('input', { type: 'search', placeholder, 'aria-label': label, 'data-filter': '', spellcheck: 'false', autocomplete: 'off', on: { input: later } })
  input.value = value
  return input
}

/** A row of buttons of which one is pressed. */
export function buttons(label, options, value, onChange) {
  const all = options.map(([name, text]) => h('button', { type: 'button', class: 'plain small', 'aria-pressed': String(name === value), on: { click: () => onChange(name) } }, text))
  return h('div', { class: 'bar-row', role: 'group', 'aria-label': label }, ...all)
}

/** Advice or warnings, as a list. */
export const remarks = (texts, warnings = false) => h('ul', { class: `advice${warnings ? ' warnings' : ''}` }, ...texts)

/** Places of the known values, scaled to their own range. */
function sparkPoints(values) {
  const known = values.filter(Number.isFinite)
  if (known.length < 2) return []
  const top = Math.max(...known, 1e-9)
  const low = Math.min(...known)
  const foot = Math.max(0, low - Math.max((top - low) * 0.6, top * 0.02))
  const step = 100 / (values.length - 1)
  const place = (value, at) => (Number.isFinite(value) ? `${(at * step).toFixed(2)} ${(29 - ((value - foot) / (top - foot || 1)) * 26).toFixed(2)}` : '')
  return values.map(place).filter(Boolean)
}
