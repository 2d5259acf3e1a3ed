// Checks of the page at a real node: each view draws from the node's own documents.

import assert from 'node:assert/strict'
import { live, openPage } from './browser.mjs'
import { VIEWS } from './checks.mjs'

/** Checks of the node at an address. */
export const real = base => ({
  async each_view_of_the_node_draws({ browser }) {
    const page = await openPage(browser, base)
    await live(page)
    for (const view of Object.keys(VIEWS)) {
      await page.evaluate(name => { location.hash = name }, view)
      const part = view === 'cluster' ? '[data-part="members"], [data-part="no-cluster"]' : `[data-part="${VIEWS[view]}"]`
      await page.waitForFunction(selector => document.querySelector(selector), part)
      await live(page)
      await page.waitForTimeout(1200)
      assert.doesNotMatch(await page.locator('main').innerText(), /NaN|undefined|\[object/, view)
    }
    assert.deepEqual(page.faults, [])
    await page.leave()
  },

  async first_view_of_the_node_is_small({ browser, figures }) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    const page = await context.newPage()
    const session = await context.newCDPSession(page)
    await session.send('Network.enable')
    let received = 0
    session.on('Network.loadingFinished', event => { received += event.encodedDataLength })
    await page.goto(`${base}/ui/`)
    await live(page)
    await page.waitForTimeout(1500)
    figures.push(`first view of the node: ${received} bytes`)
    assert.ok(received > 10_000 && received < 200_000, `${received} bytes`)
    await context.close()
  },
})
