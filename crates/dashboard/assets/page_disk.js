// Disk: its cost for a request, the cursors' way round the volumes, queues, damage and wear.

import { h, visible } from './dom.js'
import { bytes, count, micros, percent, plain, rate, whole } from './format.js'
import { HistoryPanel } from './history.js'
import { Ring } from './chart_ring.js'
import { meter, panel, tile, tiles } from './parts.js'
import { Table, number, setPill } from './table.js'

/** Opens the view. */
export function open({ route }) {
  const view = new DiskView(route)
  return { lead: 'Its cost for each request, and the cursor’s way round each volume', parts: view.parts, query: () => ({}), update: document => view.update(document), close: () => view.history.close() }
}

class DiskView {
  constructor(route) {
    this.tiles = Object.fromEntries(TILES.map(([name, title, hint]) => [name, tile(title, { spark: false, hint })]))
    this.rings = new Map()
    this.ringList = h('div', { class: 'rings' })
    this.ringPanel = panel('The cursor’s way round the volume', { width: 'w7', label: 'rings' }, this.ringList)
    const name = { key: 'name', label: 'Disk', cell: row => row.name, value: row => row.name, ascending: true }
    const state = { key: 'in_service', label: 'State', draw: (row, cell) => setPill(cell, row.in_service ? 'in service' : row.why || 'out of service', row.in_service ? 'good' : 'bad') }
    const columns = [name, { key: 'kind', label: 'Kind', cell: row => row.kind }, state,
      { key: 'used', label: 'Used', n: true, value: row => row.used / row.size, cell: row => `${bytes(row.used)} of ${bytes(row.size)}` },
      number('reads_per_s', 'Reads', rate), number('writes_per_s', 'Writes', rate), number('read_bytes', 'Bytes read', bytes), number('write_bytes', 'Bytes written', bytes),
      number('queue_p50_us', 'Queue, half', micros), number('queue_p99_us', 'Queue, 99%', micros), number('damage', 'Damaged', whole, { tone: row => (row.damage > 0 ? 'alarm' : 'zero') })]
    this.disks = new Table(route, { caption: 'Disks', columns, rowKey: row => row.name, order: 'name', empty: 'This node has no disk: it caches in RAM alone.' })
    const wear = [name, { key: 'writes_per_day_bytes', label: 'Written a day', n: true, value: row => row.writes_per_day_bytes, cell: row => bytes(row.writes_per_day_bytes) },
      { key: 'size', label: 'Of its size', n: true, value: row => row.writes_per_day_bytes / row.size, cell: row => (row.size ? `${plain(row.writes_per_day_bytes / row.size)} times` : '–') },
      { key: 'wear_years', label: 'Lasts', n: true, value: row => row.wear_years, cell: row => (Number.isFinite(row.wear_years) ? `${plain(row.wear_years)} years` : 'no rating set') }]
    this.wear = new Table(route, { caption: 'Wear of the disks', columns: wear, rowKey: row => row.name, parameter: 'sort2', empty: 'Nothing has been written.' })
    this.diskPanel = panel('Disks', { label: 'disks' }, this.disks.element)
    this.wearPanel = panel('Wear', { note: 'at the rate of the last day' }, this.wear.element)
    this.admission = { objects: meter('Objects admitted', true), bytes: meter('Bytes admitted', true) }
    const admission = h('div', { class: 'meters' }, this.admission.objects.element, this.admission.bytes.element)
    this.side = h('div', { class: 'w5 stack' }, this.wearPanel, panel('Admission', { note: 'a disk that is not written lasts longer' }, admission), reading())
    this.history = new HistoryPanel(route, ['ios', 'io_bytes'])
    this.parts = [tiles(Object.values(this.tiles)), this.ringPanel, this.side, this.diskPanel, this.history.element]
  }

  update(disk) {
    const disks = disk.disks ?? []
    this.showTiles(disk, disks)
    this.disks.update(disks)
    this.showAdmission(disk.admission ?? {})
    this.wear.update(disks)
    this.showRings(disk, disks)
  }

  showTiles(disk, disks) {
    const { ios, written, admitted, carried, queue, damage } = this.tiles
    const per = disk.per_request ?? {}
    const admission = disk.admission ?? {}
    const worst = disks.reduce((most, one) => ((one.queue_p99_us ?? -1) > (most?.queue_p99_us ?? -1) ? one : most), undefined)
    ios.set(plain(per.ios), `${bytes(per.bytes)} for each request`)
    written.set(Number.isFinite(disk.per_byte_served) ? `${plain(disk.per_byte_served)} B` : '–', `${bytes(per.bytes_written)} for each request`)
    admitted.set(admission.offered ? percent(admission.admitted / admission.offered) : '–', `${count(admission.admitted)} of ${count(admission.offered)} objects`)
    carried.set(count(typeof disk.carried_over === 'object' ? disk.carried_over?.objects : disk.carried_over), 'popular objects')
    queue.set(micros(worst?.queue_p99_us), !worst ? 'no disk' : Number.isFinite(worst.queue_p99_us) ? `on ${visible(worst.name)}` : 'nothing waited yet')
    damage.set(whole(disks.reduce((sum, one) => sum + (one.damage ?? 0), 0)), damageText(disks))
  }

  showAdmission({ offered, admitted, offered_bytes: allBytes, admitted_bytes: someBytes }) {
    const { objects, bytes: size } = this.admission
    objects.set(admitted, offered, `${count(admitted)} of ${count(offered)}`)
    size.element.hidden = !Number.isFinite(allBytes)
    size.set(someBytes, allBytes, `${bytes(someBytes)} of ${bytes(allBytes)}`)
  }

  showRings({ cursor = {}, popularity = {} }, disks) {
    const names = disks.map(one => one.name).filter(name => cursor[name])
    for (const name of names) {
      if (!this.rings.has(name)) this.rings.set(name, new Ring(name))
      this.rings.get(name).update(cursor[name], popularity[name] ?? [])
    }
    for (const name of this.rings.keys()) if (!names.includes(name)) this.rings.delete(name)
    const wanted = names.map(name => this.rings.get(name).element)
    if (wanted.length !== this.ringList.children.length || wanted.some((ring, at) => ring !== this.ringList.children[at])) this.ringList.replaceChildren(...wanted)
    this.ringPanel.hidden = names.length === 0
    this.side.hidden = names.length === 0
  }
}

/** Panel that tells colleagues how to read the ring. */
function reading() {
  return panel('How to read the ring', {}, h('p', { class: 'muted' }, 'The arrow is the cursor. It goes round the volume clockwise and writes over the oldest objects. A bar counts the hits of one part of the volume: right behind the arrow lie the newest objects, right before it those that go next. Low bars before the arrow mean that little is lost with them; high ones ask for a larger disk.'))
}

function damageText(disks) {
  const out = disks.filter(one => !one.in_service).length
  return out ? `${whole(out)} of ${whole(disks.length)} disks out of service` : 'records; all disks serve'
}

const TILES = [
  ['ios', 'I/Os a request', 'Disk reads and writes for each request'],
  ['written', 'Written per byte', 'Bytes written to disk for each byte served'],
  ['admitted', 'Admitted', 'Objects that were written, of those offered'],
  ['carried', 'Carried over', 'Objects written again when the cursor came to them'],
  ['queue', 'Queue, 99% within', 'Time that operations wait for the slowest disk'],
  ['damage', 'Damaged', 'Records that failed a check and were fetched again'],
]
