// The dashboard: takes the view from the address, keeps one live connection, and hands documents
// to the view.

import { h, setText, setClass, visible } from './dom.js'
import { clock, span } from './format.js'
import { Live } from './live.js'
import { Route } from './route.js'
import { dialogIsOpen, openDialog, toast } from './dialogs.js'
import { openExplain } from './explain.js'
import { openPurge } from './purge.js'
import { keep, kept, themeName, turnTheme } from './kept.js'

const PAGES = [
  ['now', 'Now'], ['reasons', 'Why not'], ['disk', 'Disk'], ['size', 'Size'],
  ['origins', 'Origins'], ['objects', 'Objects'], ['cluster', 'Cluster'], ['log', 'Log'],
]
const WORDS = { live: 'Live', paused: 'Paused', starting: 'Connecting', lost: 'No connection', draining: 'The node ends', refused: 'No permission' }
/** Difference between the node's clock and the browser's steady one that is called a step. */
const CLOCK_STEP_MS = 5000

class App {
  constructor() {
    this.route = new Route(() => this.show())
    this.paused = false
    this.node = {}
    this.buildNavigation()
    this.buildTools()
    addEventListener('keydown', event => this.key(event))
    addEventListener('visibilitychange', () => (document.hidden ? this.rest() : this.connect()))
    addEventListener('shoal:explain', event => this.explain(event.detail))
    addEventListener('shoal:purge', event => this.purge(event.detail))
    this.show()
  }

  buildNavigation() {
    const list = document.getElementById('pages')
    this.links = PAGES.map(([name, title], at) => h('a', { href: `#${name}` }, title, h('kbd', { 'aria-hidden': 'true' }, String(at + 1))))
    list.append(...this.links.map(link => h('li', {}, link)))
  }

  buildTools() {
    const on = (id, act) => document.getElementById(id).addEventListener('click', act)
    on('explain-open', () => this.explain(''))
    on('purge-open', () => this.purge(''))
    on('pause', () => this.pause())
    on('theme', () => this.turnTheme())
    on('help-open', () => this.help())
    document.querySelector('.skip').addEventListener('click', event => {
      event.preventDefault()
      document.getElementById('main').focus()
    })
    this.nameTheme()
  }

  /** Shows the view that the address names. */
  async show() {
    const { page, key } = this.view()
    if (key === this.shown) return this.askedToExplain()
    const moved = page !== this.page
    Object.assign(this, { shown: key, page })
    const module = await import(`./page_${page}.js`)
    if (this.shown !== key) return
    this.current?.close?.()
    this.current = module.open({ route: this.route, set: changes => this.set(changes), mayChange: () => this.node.may_change !== false })
    this.frame(page)
    document.getElementById('view').replaceChildren(...this.current.parts)
    if (moved && this.started) document.getElementById('title').focus()
    this.started = true
    this.connect()
    this.askedToExplain()
  }

  /** Changes parameters of the view, which asks the node anew. */
  set(changes) {
    this.route.set(changes, false)
    this.shown = this.view().key
    this.connect()
  }

  askedToExplain() {
    const asked = this.route.get('explain')
    if (asked && !dialogIsOpen()) this.explain(asked)
  }

  /** Page and parameters; `explain` belongs to the dialog and `sort` and `range` to parts. */
  view() {
    const page = PAGES.some(([name]) => name === this.route.page) ? this.route.page : 'now'
    const parameters = new URLSearchParams(location.hash.split('?')[1] ?? '')
    for (const name of ['explain', 'range', 'sort', 'sort2', 'sort3']) parameters.delete(name)
    return { page, key: `${page}?${parameters}` }
  }

  frame(page) {
    const title = PAGES.find(([name]) => name === page)[1]
    setText(document.getElementById('title'), title)
    setText(document.getElementById('lead'), this.current.lead)
    document.title = `${title} · ${this.node.node ?? 'Shoal'}`
    this.links.forEach((link, at) => {
      if (PAGES[at][0] === page) link.setAttribute('aria-current', 'page')
      else link.removeAttribute('aria-current')
    })
  }

  connect() {
    this.live?.stop()
    if (this.paused || document.hidden || !this.current) return
    const current = this.current
    this.live = new Live(this.page, current.query(), {
      onDocument: document => this.take(current, document),
      onLine: line => current.line?.(line),
      onSkipped: count => current.skipped?.(count),
      onState: (state, detail) => this.state(state, detail),
    })
    this.live.start()
  }

  rest() {
    this.live?.stop()
    this.state('paused')
  }

  take(current, document) {
    if (current !== this.current) return
    this.watchNode(document)
    current.update(document)
    setClass(globalThis.document.documentElement, 'aged', false)
  }

  /** Notices a restart and steps of the node's clock. A cluster's `state` is the member's. */
  watchNode(document) {
    const steady = performance.now()
    const before = this.seen
    this.seen = { unix: document.unix_ms, steady, uptime: document.uptime_s ?? before?.uptime }
    const version = this.node.version
    this.node = { ...this.node, ...pick(document, ['node', 'version', 'uptime_s', 'may_change', ...(this.page === 'cluster' ? [] : ['state'])]) }
    this.nameNode()
    if (!before) return
    if (version && version !== this.node.version) toast('The node has another version now. Load this page again to see its views.')
    if (document.uptime_s < before.uptime - 1) toast('The node has started again: counts begin anew.')
    const step = document.unix_ms - before.unix - (steady - before.steady)
    if (Math.abs(step) > CLOCK_STEP_MS && before.unix) toast(`The node's clock has moved by ${step < 0 ? '-' : ''}${span(Math.round(Math.abs(step) / 1000))}.`)
  }

  nameNode() {
    const { node, version, uptime_s: uptime, state } = this.node
    const parts = [node && h('b', {}, visible(node)), version && h('span', {}, visible(version)), Number.isFinite(uptime) && h('span', {}, `up ${span(uptime)}`), state && state !== 'ready' && h('span', { class: 'pill warn' }, visible(state))]
    const key = JSON.stringify([node, version, span(uptime), state, this.node.may_change])
    if (key === this.named) return
    this.named = key
    document.getElementById('node').replaceChildren(...parts.filter(Boolean))
    document.getElementById('purge-open').disabled = this.node.may_change === false
    document.getElementById('purge-open').title = this.node.may_change === false ? 'Your role may look and not change.' : ''
  }

  /** Says how the connection is; the last values stay, grey while they age. */
  state(state, detail) {
    if (state === this.connection && detail === this.detail) return
    Object.assign(this, { connection: state, detail })
    const element = document.getElementById('connection')
    element.dataset.state = state
    setText(element, WORDS[state])
    const dead = ['lost', 'draining', 'refused'].includes(state)
    setClass(document.documentElement, 'aged', dead)
    const notice = document.getElementById('notice')
    notice.hidden = !dead
    notice.replaceChildren()
    if (!dead) return
    setClass(notice, 'bad', state !== 'draining')
    const since = this.seen?.unix ? ` The values below are of ${clock(this.seen.unix)}.` : ''
    const next = state === 'refused' ? '' : ' The page tries again by itself.'
    const retry = h('button', { type: 'button', class: 'plain small', on: { click: () => this.connect() } }, 'Try now')
    notice.append(`${WORDS[state]}: ${visible(detail)}.${since}${next} `, retry)
  }

  pause() {
    this.paused = !this.paused
    document.getElementById('pause').setAttribute('aria-pressed', String(this.paused))
    setText(document.getElementById('pause'), this.paused ? 'Go on' : 'Pause')
    if (this.paused) this.rest()
    else this.connect()
  }

  explain(url) {
    this.route.set({ explain: url }, false)
    openExplain(url, asked => this.route.set({ explain: asked }, false))
  }

  purge(url) {
    if (this.node.may_change === false) toast('Your role may look and not change.')
    else openPurge(url, () => this.connect())
  }

  turnTheme() {
    turnTheme()
    this.nameTheme()
    dispatchEvent(new Event('shoal:theme'))
  }

  nameTheme() {
    setText(document.getElementById('theme'), themeName())
  }

  key(event) {
    const typing = event.target.closest?.('input, textarea, select')
    if (event.ctrlKey || event.metaKey || event.altKey || typing || dialogIsOpen() || kept('shoal.keys') === 'off') return
    const act = this.shortcut(event.key)
    if (!act) return
    event.preventDefault()
    act()
  }

  shortcut(key) {
    const at = '12345678'.indexOf(key)
    if (key.length === 1 && at >= 0) return () => this.route.go(PAGES[at][0])
    const field = () => document.querySelector('[data-filter]')?.focus()
    return { '?': () => this.help(), t: () => this.turnTheme(), p: () => this.pause(), e: () => this.explain(''), x: () => this.purge(''), r: () => this.connect(), '/': field }[key]
  }

  help() {
    const rows = [['1 – 8', 'go to a view'], ['/', 'filter'], ['e', 'explain a URL'], ['x', 'purge'], ['p', 'pause, go on'], ['r', 'connect again'], ['t', 'theme: system, dark, light'], ['?', 'this list'], ['Esc', 'close a dialog'], ['← →', 'values of a chart that has the focus'], ['Enter', 'values of a heat map or ring as a table']]
    const list = h('dl', { class: 'keys' }, ...rows.flatMap(([key, text]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)]))
    const box = h('input', { type: 'checkbox', on: { change: () => keep('shoal.keys', box.checked ? 'on' : 'off') } })
    box.checked = kept('shoal.keys') !== 'off'
    openDialog('Keyboard shortcuts', [list, h('p', { class: 'muted' }, h('label', { class: 'field' }, box, 'Single keys are shortcuts'))])
  }
}

const pick = (from, names) => Object.fromEntries(names.filter(name => from[name] !== undefined).map(name => [name, from[name]]))

new App()
