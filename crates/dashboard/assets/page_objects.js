// Objects: those that matter most by requests, bytes or origin cost, to be explained or purged.

import { h } from './dom.js'
import { bytes, count, millis, whole } from './format.js'
import { buttons, choice, panel, setOptions, textField } from './parts.js'
import { Table, address, number, setPill } from './table.js'

const ORDERS = [['requests', 'Requests'], ['bytes', 'Bytes'], ['cost', 'Origin cost']]

/** Opens the view. */
export function open({ route, set, mayChange }) {
  const by = () => (ORDERS.some(([name]) => name === route.get('by')) ? route.get('by') : 'requests')
  const place = h('div', {})
  const order = () => place.replaceChildren(buttons('Order of the objects', ORDERS, by(), name => {
    set({ by: name === 'requests' ? '' : name, sort: '' })
    order()
    place.querySelector('[aria-pressed="true"]').focus()
  }))
  order()
  const sites = new Set(route.get('site') ? [route.get('site')] : [])
  const site = choice('Site', [['', 'all sites']], '', name => set({ site: name }))
  const search = textField('Search in URLs', 'Search in URLs', route.get('q'), text => set({ q: text }))
  const table = new Table(route, { caption: 'Objects', columns: columns(mayChange), rowKey: row => row.url, empty: 'No object fits. The list knows the objects that were asked for most since the start.' })
  const section = panel('Top objects', { end: [place, site, search], label: 'objects' }, table.element)
  const update = document => {
    const objects = document.objects ?? []
    objects.forEach(one => one.site && sites.size < 1000 && sites.add(one.site))
    setOptions(site, [['', 'all sites'], ...[...sites].sort().map(name => [name, name])], route.get('site'))
    table.update(objects)
    section.note(`${whole(objects.length)} shown${document.sampled_one_in > 1 ? `; of hits in RAM one in ${whole(document.sampled_one_in)} is counted` : ''}`)
  }
  return { lead: 'Those that are asked for most, or cost their origin most', parts: [section], query: () => ({ by: by(), q: route.get('q'), site: route.get('site') }), update }
}

function columns(mayChange) {
  const place = { key: 'in', label: 'In', draw: (row, cell) => setPill(cell, { ram: 'RAM', disk: 'disk', none: 'not stored' }[row.in] ?? '?', row.in === 'none' ? 'warn' : 'good') }
  return [address('url', 'URL', { whole: keyOf }), { key: 'site', label: 'Site', cell: row => row.site ?? '', value: row => row.site, ascending: true }, place, number('requests', 'Requests', count), number('bytes', 'Bytes', bytes), number('origin_ms', 'Origin time', millis), number('size', 'Size', bytes), { key: 'act', label: 'Actions', tone: () => 'acts', draw: (row, cell) => drawActions(row, cell, mayChange) }]
}

/** The URL as purge and explain take it; `null` if the node has only its beginning. */
const keyOf = row => (row.key_url === undefined ? row.url : row.key_url)

function drawActions(row, cell, mayChange) {
  if (!cell.firstChild) {
    const button = (text, name) => h('button', { type: 'button', class: 'plain small', on: { click: () => dispatchEvent(new CustomEvent(`shoal:${name}`, { detail: cell.url })) } }, text)
    cell.append(h('div', { class: 'bar-row' }, button('Explain', 'explain'), button('Purge…', 'purge')))
    cell.firstChild.style.flexWrap = 'nowrap'
  }
  if (cell.shown === row.url) return
  cell.shown = row.url
  cell.url = keyOf(row)
  const [explain, purge] = cell.firstChild.children
  const short = row.url.slice(0, 200)
  explain.setAttribute('aria-label', `Explain ${short}`)
  purge.setAttribute('aria-label', `Purge ${short}`)
  explain.disabled = cell.url === null
  purge.disabled = cell.url === null || !mayChange()
}
