// Why not: reasons of misses, and of answers that are not stored, each with samples and a remedy.

import { h, rich, setText, setWidth, visible } from './dom.js'
import { bytes, count, percent } from './format.js'
import { choice, panel, setOptions } from './parts.js'
import { addressButton } from './table.js'

/** Most sites to choose from; further ones are chosen by the address. */
const SITES = 1000

/** Opens the view. */
export function open({ route, set }) {
  const sites = choice('Site', [['', 'all sites']], '', site => set({ site }))
  const misses = new Reasons('Misses', 'reasons for which the origin was asked', 'Every request so far was a hit.', [sites])
  const kept = new Reasons('Not stored', 'reasons for which an answer was not kept', 'Every answer so far was stored.', [])
  const update = document => {
    const names = (document.sites ?? []).slice(0, SITES).map(name => [name, visible(name)])
    const chosen = route.get('site')
    const known = !chosen || names.some(([name]) => name === chosen)
    setOptions(sites, [['', 'all sites'], ...names, ...(known ? [] : [[chosen, visible(chosen)]])], chosen)
    misses.update(document.misses ?? [])
    kept.update(document.not_stored ?? [])
  }
  return { lead: 'What keeps requests from being hits, and what would change it', parts: [misses.panel, kept.panel], query: () => ({ site: route.get('site') }), update }
}

/** Panel of reasons, the most frequent first. */
class Reasons {
  constructor(title, note, empty, end) {
    this.rows = new Map()
    this.list = h('div', {})
    this.none = h('p', { class: 'empty' }, empty)
    this.panel = panel(title, { note, end, label: title.toLowerCase().replace(' ', '-') }, this.list, this.none)
  }

  update(reasons) {
    const most = Math.max(1e-9, ...reasons.map(one => one.share ?? 0))
    const wanted = reasons.map(reason => {
      if (!this.rows.has(reason.reason)) this.rows.set(reason.reason, new ReasonRow(reason.reason))
      return this.rows.get(reason.reason).update(reason, most)
    })
    for (const name of this.rows.keys()) if (!reasons.some(one => one.reason === name)) this.rows.delete(name)
    wanted.forEach((element, at) => {
      if (this.list.children[at] !== element) this.list.insertBefore(element, this.list.children[at] ?? null)
    })
    while (this.list.children.length > wanted.length) this.list.lastChild.remove()
    this.none.hidden = wanted.length > 0
  }
}

class ReasonRow {
  constructor(name) {
    this.fill = h('i', {})
    this.share = h('span', { class: 'n' })
    this.requests = h('span', { class: 'n muted' })
    this.bytes = h('span', { class: 'n muted bytes' })
    this.inner = h('div', { class: 'inner' })
    const summary = h('summary', {}, h('code', {}, visible(name)), h('span', { class: 'long', 'aria-hidden': 'true' }, this.fill), this.share, this.requests, this.bytes)
    this.element = h('details', { class: 'reason' }, summary, this.inner)
  }

  update(reason, most) {
    setWidth(this.fill, (reason.share ?? 0) / most)
    setText(this.share, percent(reason.share))
    setText(this.requests, `${count(reason.requests)} req.`)
    setText(this.bytes, bytes(reason.bytes))
    const key = JSON.stringify([reason.text, reason.rule, reason.settings, reason.samples])
    if (key !== this.key) this.fillInner(reason)
    this.key = key
    return this.element
  }

  fillInner({ text, rule = '', settings: all = [], samples = [] }) {
    const settings = all.filter(name => !rule.includes(name)).flatMap(name => [' ', ...rich(`\`${name}\``)])
    const remedy = (rule || settings.length > 0) && h('p', { class: 'remedy' }, h('span', { class: 'muted' }, 'To change it: '), ...rich(rule), settings.length ? h('span', {}, h('span', { class: 'muted' }, ' Settings:'), ...settings) : null)
    const list = samples.map(url => h('li', {}, addressButton(url, url.endsWith('…') ? null : url)))
    const urls = list.length ? [h('p', { class: 'muted' }, 'Samples; each opens with what is known about it:'), h('ul', {}, ...list)] : []
    this.inner.replaceChildren(...[h('p', {}, ...rich(text ?? '')), remedy, ...urls].filter(Boolean))
  }
}
