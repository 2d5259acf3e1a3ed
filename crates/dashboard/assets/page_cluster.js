// Cluster: its nodes and their shares, asks between them, purges that lag, disagreements.

import { h, setText, setWidth, visible } from './dom.js'
import { byteRate, bytes, millis, moment, percent, plain, whole } from './format.js'
import { panel, remarks, tile, tiles } from './parts.js'
import { Table, number, setPill, share } from './table.js'

const STYLES = 12

/** Opens the view. */
export function open({ route }) {
  const view = new ClusterView(route)
  return { lead: 'The cluster as this node sees it', parts: view.parts, query: () => ({}), update: document => view.update(document) }
}

class ClusterView {
  constructor(route) {
    this.none = panel('No cluster', { label: 'no-cluster' }, h('p', { class: 'empty' }, 'This node caches alone. Start it with ', h('code', {}, '--cluster NAME --peer ADDRESS'), ' to make several nodes one cache.'))
    this.tiles = Object.fromEntries([['members', 'Members'], ['served', 'Served by peers'], ['received', 'From peers'], ['lag', 'Purges that lag'], ['traffic', 'Membership']].map(([name, title]) => [name, tile(title, { spark: false })]))
    this.tileRow = tiles(Object.values(this.tiles))
    this.bar = h('div', { class: 'split', 'aria-hidden': 'true' })
    this.troubles = h('section', { 'aria-label': 'Disagreements', hidden: true })
    const name = { key: 'name', label: 'Node', cell: row => row.name, value: row => row.name, ascending: true }
    const draw = (row, cell) => {
      if (!cell.firstChild) cell.append(h('i', { class: 'swatch' }), h('bdi', {}))
      cell.firstChild.className = `swatch s${row.style}`
      setText(cell.lastChild, visible(row.name))
    }
    const state = { key: 'state', label: 'State', draw: (row, cell) => setPill(cell, row.state, STATES[row.state] ?? 'warn') }
    this.members = new Table(route, { caption: 'Nodes of the cluster', columns: [{ ...name, draw }, { key: 'address', label: 'Address', cell: row => row.address }, state, share('share', 'Share of the keys', percent), { key: 'life', label: 'Start', n: true, cell: row => moment(row.life) }, { key: 'last_contact_ms', label: 'Last heard', n: true, cell: row => (row.last_contact_ms === null ? 'this node' : `${millis(row.last_contact_ms)} ago`) }], rowKey: row => row.name, order: 'name' })
    const ask = (key, label, tone) => ({ key, label, n: true, value: row => row.asks?.[key], cell: row => whole(row.asks?.[key]), tone: row => (row.asks?.[key] ? tone : 'zero') })
    const peerState = { key: 'state', label: 'State', draw: (row, cell) => setPill(cell, row.state, row.state === 'asked' ? 'good' : 'bad') }
    this.peers = new Table(route, { caption: 'Asks of other nodes', columns: [name, peerState, ask('served', 'Served', ''), ask('declined', 'Declined', ''), ask('failed', 'Failed', 'alarm'), ask('refused', 'Refused', 'alarm'), ask('late', 'Late', 'alarm'), ask('wrong', 'Wrong', 'alarm'), ask('skipped', 'Not asked', ''), { key: 'p99_ms', label: '99% within', n: true, cell: row => millis(row.p99_ms), value: row => row.p99_ms }, number('received_bytes', 'Received', bytes), number('purges_lag', 'Purges behind', whole, { tone: row => (row.purges_lag ? 'alarm' : 'zero') })], rowKey: row => row.name, parameter: 'sort2', order: '-served', empty: 'There is no other node.' })
    this.memberPanel = panel('Nodes and their shares', { label: 'members' }, this.bar, this.members.element)
    this.peerPanel = panel('Who serves this node', { note: 'asks of this node, by result', label: 'peers' }, this.peers.element)
    this.datagrams = h('dl', { class: 'keys' })
    this.datagramPanel = panel('Messages and moves', {}, this.datagrams)
    this.parts = [this.none, this.troubles, this.tileRow, this.memberPanel, this.peerPanel, this.datagramPanel]
  }

  update(cluster) {
    const on = cluster.enabled !== false && Array.isArray(cluster.members)
    for (const part of this.parts) part.hidden = on ? part === this.none : part !== this.none
    if (!on) return
    const members = cluster.members.map((row, at) => ({ ...row, style: at % STYLES }))
    const peers = cluster.peers ?? []
    this.showTiles(cluster, members, peers)
    this.showShares(members)
    this.members.update(members)
    this.peers.update(peers)
    this.memberPanel.note(`cluster ${visible(cluster.cluster)}, view ${visible(cluster.view)}, key ${visible(cluster.key)}`)
    this.showTroubles(cluster, members, peers)
    this.showDatagrams(cluster.datagrams ?? {}, { ...cluster.counts, ...shared(cluster.shared_memory) })
  }

  showTiles(cluster, members, peers) {
    const { members: count, served, received, lag, traffic } = this.tiles
    const sum = pick => peers.reduce((total, one) => total + (pick(one) || 0), 0)
    const alive = members.filter(one => one.state === 'in').length
    count.set(`${whole(alive)} of ${whole(members.length)}`, `this node: ${cluster.node} (${cluster.state})`)
    const asked = sum(one => Object.values(one.asks ?? {}).reduce((total, value) => total + value, 0))
    served.set(asked ? percent(sum(one => one.asks?.served) / asked) : '–', `of ${whole(asked)} asks`)
    received.set(bytes(sum(one => one.received_bytes)), 'of bodies')
    lag.set(whole(sum(one => one.purges_lag)), 'not confirmed yet')
    traffic.set(byteRate(cluster.datagrams?.sent_bytes_per_second), `${plain(cluster.datagrams?.sent_per_second)} datagrams a second`)
  }

  showShares(members) {
    while (this.bar.children.length > members.length) this.bar.lastChild.remove()
    while (this.bar.children.length < members.length) this.bar.append(h('i', {}))
    members.forEach((one, at) => {
      this.bar.children[at].className = `s${one.style}`
      this.bar.children[at].title = `${visible(one.name)} ${percent(one.share)}`
      setWidth(this.bar.children[at], one.share)
    })
  }

  showTroubles(cluster, members, peers) {
    const texts = [
      cluster.refused && `This node is alone: it was refused since ${cluster.refused}.`,
      ...members.filter(one => one.state === 'suspect').map(one => `${one.name} does not answer; its share goes to others unless it comes back.`),
      ...members.filter(one => one.view && one.view !== cluster.view).map(one => `${one.name} has another view of the cluster (${one.view}).`),
      ...peers.filter(one => one.state !== 'asked').map(one => `${one.name} is not asked: ${one.state}.`),
      ...(cluster.disagreements ?? []),
    ].filter(Boolean)
    const key = texts.join('\n')
    this.troubles.hidden = texts.length === 0
    if (key !== this.told) this.troubles.replaceChildren(remarks(texts.map(text => h('li', {}, visible(text))), true))
    this.told = key
  }

  showDatagrams({ dropped = {}, ...counts }, further = {}) {
    const lines = [['sent', `${whole(counts.sent)} (${bytes(counts.sent_bytes)})`], ['received', `${whole(counts.received)} (${bytes(counts.received_bytes)})`], ['joins refused', whole(counts.joins_refused)], ...Object.entries(dropped).map(([name, value]) => [`dropped: ${name}`, whole(value)]), ...Object.entries(further).map(([name, value]) => [name.replaceAll('_', ' '), whole(value)])]
    const key = JSON.stringify(lines)
    if (key !== this.counted) this.datagrams.replaceChildren(...lines.flatMap(([name, value]) => [h('dt', { class: 'muted' }, visible(name)), h('dd', {}, value)]))
    this.counted = key
  }
}

/** Counts of shared memory; none if it is off. */
function shared(memory) {
  return memory ? { objects_held_for_others: memory.guest_pages, bytes_held_for_others: memory.guest_bytes, objects_at_others: memory.placed_pages } : {}
}

const STATES = { in: 'good', joining: 'warn', draining: 'warn', suspect: 'bad', out: 'bad' }
