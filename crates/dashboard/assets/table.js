// Tables: rows are kept by key and changed in place, so that focus, selection and scroll stay.

import { h, setText, setClass, setWidth, shortened, visible } from './dom.js'
import { openAddress } from './dialogs.js'

/**
 * A table. Each column has `key`, `label`, `cell(row)` for its text or `draw(row, td)` for more;
 * `value(row)` makes it sortable, `n` aligns it right. The order stands in the address under
 * `parameter`.
 */
export class Table {
  constructor(route, { caption, columns, rowKey, parameter = 'sort', order, empty = 'Nothing to show.', className = '' }) {
    Object.assign(this, { route, columns, rowKey, parameter, empty, normal: order ?? '' })
    this.kept = new Map()
    this.data = []
    this.body = h('tbody', {})
    this.heads = columns.map(column => this.head(column))
    this.table = h('table', { class: className }, h('caption', {}, caption), h('thead', {}, h('tr', {}, ...this.heads)), this.body)
    this.nothing = h('p', { class: 'empty' }, empty)
    this.element = h('div', {}, h('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': caption }, this.table), this.nothing)
    this.markOrder()
  }

  /** Shows these rows; `rest` is a last row that is not sorted. */
  update(data, rest) {
    this.data = data
    this.rest = rest
    this.render()
  }

  render() {
    const keys = new Set()
    const wanted = this.sorted().map(row => this.line(row, unused(keys, this.rowKey(row))))
    if (this.rest) wanted.push(this.rest)
    const before = Array.from(this.body.children)
    if (before.length !== wanted.length || before.some((line, at) => line !== wanted[at])) this.place(wanted)
    for (const key of this.kept.keys()) if (!keys.has(key)) this.kept.delete(key)
    this.nothing.hidden = wanted.length > 0
    this.element.firstChild.hidden = wanted.length === 0
  }

  /** Moves only lines that are out of place: a moved element would lose its focus. */
  place(wanted) {
    const held = this.body.contains(document.activeElement) ? document.activeElement : undefined
    wanted.forEach((line, at) => {
      if (this.body.children[at] !== line) this.body.insertBefore(line, this.body.children[at] ?? null)
    })
    while (this.body.children.length > wanted.length) this.body.lastChild.remove()
    if (held?.isConnected && held !== document.activeElement) held.focus({ preventScroll: true })
  }

  sorted() {
    const { key, down } = this.order()
    const column = this.columns.find(one => one.key === key && one.value)
    if (!column) return this.data
    const compare = (a, b) => ordered(column.value(a), column.value(b)) * (down ? -1 : 1)
    return [...this.data].sort(compare)
  }

  line(row, key) {
    let line = this.kept.get(key)
    if (!line) {
      line = h('tr', {}, ...this.columns.map((column, at) => h(at ? 'td' : 'th', { class: classes(column), scope: at ? undefined : 'row' })))
      this.kept.set(key, line)
    }
    this.columns.forEach((column, at) => {
      const cell = line.children[at]
      if (column.draw) column.draw(row, cell)
      else fill(cell, visible(column.cell(row)))
      if (column.tone) cell.className = `${classes(column)} ${column.tone(row)}`
    })
    return line
  }

  head(column) {
    if (!column.value) return h('th', { scope: 'col', class: classes(column) }, column.label)
    const button = h('button', { type: 'button', class: 'sort', title: column.hint, on: { click: () => this.sortBy(column) } }, column.label)
    return h('th', { scope: 'col', class: classes(column) }, button)
  }

  sortBy(column) {
    const { key, down } = this.order()
    const turned = key === column.key ? !down : !column.ascending
    this.route.set({ [this.parameter]: `${turned ? '-' : ''}${column.key}` }, false)
    this.markOrder()
    this.render()
  }

  order() {
    const written = this.route.get(this.parameter) || this.normal
    return { key: written.replace(/^-/, ''), down: written.startsWith('-') }
  }

  markOrder() {
    const { key, down } = this.order()
    this.columns.forEach((column, at) => {
      if (column.value && column.key === key) this.heads[at].setAttribute('aria-sort', down ? 'descending' : 'ascending')
      else this.heads[at].removeAttribute('aria-sort')
    })
  }
}

/** A column of numbers: `value` of the row, written by `format`. */
export function number(key, label, format, more = {}) {
  const value = row => row[key]
  return { key, label, n: true, value, cell: row => format(row[key]), tone: row => (row[key] ? '' : 'zero'), ...more }
}

/** A column with a share of 1, and the share as a bar. */
export function share(key, label, format, more = {}) {
  const draw = (row, cell) => {
    if (!cell.firstChild) cell.append(h('span', {}), h('span', { class: `mini ${more.long ? 'long' : ''} ${more.own?.(row) ?? ''}`, 'aria-hidden': 'true' }, h('i', {})))
    setText(cell.firstChild, format(row[key]))
    setWidth(cell.lastChild.firstChild, row[key])
  }
  return { key, label, n: true, value: row => row[key], draw, ...more }
}

/** A column of a URL, which opens with all that can be done about it; `whole(row)` is the URL itself. */
export function address(key, label, more = {}) {
  const draw = (row, cell) => {
    if (!cell.firstChild) cell.append(addressButton(''))
    fillAddress(cell.firstChild, row[key], more.whole ? more.whole(row) : row[key])
  }
  return { key, label, wide: true, draw, value: row => row[key], ascending: true, ...more }
}

/** A button that shows a URL in short, and opens the whole; `null` if the node has only a part. */
export function addressButton(url, whole = url) {
  const button = h('button', { type: 'button', class: 'url', on: { click: () => openAddress(button.url, button.whole) } })
  fillAddress(button, url, whole)
  return button
}

function fillAddress(button, url, whole) {
  if (button.url === url) return
  Object.assign(button, { url, whole })
  setText(button, shortened(url, 110))
}

/** Sets a pill in a cell, by text and tone. */
export function setPill(cell, text, tone) {
  if (!cell.firstChild) cell.append(h('span', { class: 'pill' }))
  setText(cell.firstChild, visible(text))
  for (const name of ['good', 'warn', 'bad']) setClass(cell.firstChild, name, name === tone)
}

/** Sets the text; a long one, which the column may cut, shows whole on hover. */
function fill(cell, text) {
  if (cell.textContent === text) return
  setText(cell, text)
  cell.title = text.length > 24 ? text : ''
}

/** A key that no earlier row of the table has: two rows may have one name. */
function unused(keys, wanted) {
  let key = wanted
  while (keys.has(key)) key += '\u0000'
  keys.add(key)
  return key
}

const classes = column => `${column.n ? 'n' : ''}${column.wide ? 'wide' : ''}`

function ordered(a, b) {
  if (typeof a === 'string' || typeof b === 'string') return String(a ?? '').localeCompare(String(b ?? ''))
  return (a ?? -Infinity) - (b ?? -Infinity) || 0
}
