// Bars of the page: bytes and CPU of the first view, memory of an open page, accessibility.

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { live, openPage } from './browser.mjs'
import { VIEWS } from './checks.mjs'

const FIRST_VIEW_BYTES = 200_000
/** Events that stand for an hour at one a second, and the growth that is noise. */
const EVENTS = 900
const GROWTH_BYTES = 1_000_000

export const bars = {
  /** All bytes on the wire until the first view is drawn, heads and documents with them. */
  async first_view_is_small({ browser, mockOf, figures }) {
    const mock = await mockOf('busy')
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    const page = await context.newPage()
    const session = await context.newCDPSession(page)
    await session.send('Network.enable')
    await session.send('Performance.enable')
    let received = 0
    let requests = 0
    session.on('Network.loadingFinished', event => { received += event.encodedDataLength })
    session.on('Network.requestWillBeSent', () => { requests += 1 })
    await page.goto(`${mock.base}/ui/`)
    await live(page)
    await page.waitForSelector('.tile .spark-line[d^="M"]')
    await page.waitForTimeout(100)
    const metrics = Object.fromEntries((await session.send('Performance.getMetrics')).metrics.map(one => [one.name, one.value]))
    figures.push(`first view: ${received} bytes in ${requests} requests; ${Math.round(metrics.ThreadTime * 1000)} ms of the main thread's CPU`)
    assert.ok(received > 10_000 && received < FIRST_VIEW_BYTES, `${received} bytes`)
    await context.close()
  },

  /** Heap, nodes and listeners after a forced collection, before and after many events. */
  async open_page_does_not_grow({ browser, mockOf, figures }) {
    for (const view of ['now', 'disk', 'log']) {
      const mock = await mockOf('busy')
      const page = await openPage(browser, mock.base, { path: `#${view}` })
      const session = await page.context().newCDPSession(page)
      await session.send('Performance.enable')
      await session.send('HeapProfiler.enable')
      await live(page)
      mock.every = 4
      const until = async wanted => { while (mock.tick < wanted) await page.waitForTimeout(50) }
      // The node is silent meanwhile: rows that were just replaced are no growth.
      const measured = async () => {
        mock.silent = true
        await page.waitForTimeout(500)
        for (let at = 0; at < 3; at += 1) await session.send('HeapProfiler.collectGarbage')
        const { metrics } = await session.send('Performance.getMetrics')
        mock.silent = false
        const value = name => metrics.find(one => one.name === name).value
        return { heap: value('JSHeapUsedSize'), nodes: value('Nodes'), listeners: value('JSEventListeners') }
      }
      await until(mock.tick + 250)
      const before = await measured()
      await until(mock.tick + EVENTS)
      const after = await measured()
      figures.push(`${view} over ${EVENTS} events: heap ${before.heap} to ${after.heap}, nodes ${before.nodes} to ${after.nodes}, listeners ${before.listeners} to ${after.listeners}`)
      assert.ok(after.heap - before.heap < GROWTH_BYTES, `${view}: heap grew by ${after.heap - before.heap}`)
      assert.ok(after.nodes - before.nodes < 1500, `${view}: nodes grew by ${after.nodes - before.nodes}`)
      assert.ok(after.listeners - before.listeners < 200, `${view}: listeners grew by ${after.listeners - before.listeners}`)
      assert.deepEqual(page.faults, [])
      await page.leave()
    }
  },

  /** Views that are left leave nothing behind. */
  async views_that_are_left_are_freed({ browser, mockOf }) {
    const mock = await mockOf('busy')
    const page = await openPage(browser, mock.base)
    await live(page)
    const session = await page.context().newCDPSession(page)
    await session.send('Performance.enable')
    await session.send('HeapProfiler.enable')
    const round = async () => {
      for (const view of Object.keys(VIEWS)) {
        await page.evaluate(name => { location.hash = name }, view)
        await page.waitForSelector(`[data-part="${VIEWS[view]}"]`)
        await page.waitForTimeout(60)
      }
      for (let at = 0; at < 3; at += 1) await session.send('HeapProfiler.collectGarbage')
      const { metrics } = await session.send('Performance.getMetrics')
      return metrics.find(one => one.name === 'JSHeapUsedSize').value
    }
    for (let at = 0; at < 2; at += 1) await round()
    const before = await round()
    let after = 0
    for (let at = 0; at < 5; at += 1) after = await round()
    assert.ok(after - before < GROWTH_BYTES, `heap grew by ${after - before} in five rounds`)
    await page.leave()
  },

  /** axe finds nothing serious on any view, in either theme, nor in the dialogs. */
  async axe_finds_nothing_serious({ browser, mockOf, figures }) {
    const mock = await mockOf('busy')
    const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
    const found = []
    for (const theme of ['light', 'dark']) {
      const page = await openPage(browser, mock.base, { theme })
      await live(page)
      await page.evaluate(source)
      const look = async where => {
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
        for (const one of violations) found.push({ where: `${where}, ${theme}`, impact: one.impact, id: one.id, at: one.nodes.slice(0, 2).map(node => node.html.slice(0, 160)) })
      }
      for (const view of Object.keys(VIEWS)) {
        await page.evaluate(name => { location.hash = name }, view)
        await page.waitForSelector(`[data-part="${VIEWS[view]}"]`)
        await live(page)
        await page.evaluate(() => document.querySelectorAll('details').forEach(one => { one.open = true }))
        await page.waitForTimeout(150)
        await look(view)
      }
      for (const key of ['?', 'x', 'e']) {
        await page.keyboard.press(key)
        await page.waitForSelector('dialog')
        if (key === 'e') {
          await page.keyboard.type('http://www.shop.example/')
          await page.keyboard.press('Enter')
          await page.waitForSelector('.verdict')
        }
        await look(`dialog of ${key}`)
        await page.keyboard.press('Escape')
      }
      await page.leave()
    }
    const grave = found.filter(one => ['serious', 'critical'].includes(one.impact))
    figures.push(`axe: ${found.length} findings, ${grave.length} of them serious`)
    found.filter(one => !grave.includes(one)).forEach(one => figures.push(`axe, ${one.impact}: ${one.id} on ${one.where}: ${one.at[0]}`))
    assert.deepEqual(grave, [])
  },
}
