// An open page for an hour, at a running node: memory of page and node each minute.
//
//   node testkit/dashboard/hour.mjs BASE PID [MINUTES]
//
// BASE is the admin listener's address, PID the node's process. The last line compares the hour's
// first ten minutes with its last. Needs the packages of this folder (`npm ci`) and Chromium.

import { readFileSync } from 'node:fs'
import { launch, live, openPage } from './browser.mjs'

const [base, pid, minutes = 60] = process.argv.slice(2)
if (!base || !pid) throw new Error('usage: node hour.mjs BASE PID [MINUTES]')

/** Kilobytes of the node's own pages. */
const resident = () => Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1])
const median = values => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]

const browser = await launch()
const page = await openPage(browser, base)
await live(page)
const session = await page.context().newCDPSession(page)
await session.send('Performance.enable')
await session.send('HeapProfiler.enable')
const samples = []
for (let minute = 0; minute < minutes; minute += 1) {
  await page.waitForTimeout(60_000)
  await session.send('HeapProfiler.collectGarbage')
  const { metrics } = await session.send('Performance.getMetrics')
  const value = name => metrics.find(one => one.name === name).value
  const sample = { minute, heap: value('JSHeapUsedSize'), nodes: value('Nodes'), listeners: value('JSEventListeners'), node_kb: resident() }
  samples.push(sample)
  console.log(JSON.stringify(sample))
}
const [first, last] = [samples.slice(0, 10), samples.slice(-10)]
const told = name => `${name} ${median(first.map(one => one[name]))} to ${median(last.map(one => one[name]))}`
console.log([...['heap', 'nodes', 'listeners', 'node_kb'].map(told), `faults ${page.faults.length}`].join(', '))
await browser.close()
