// Checks of the page at a real node: each view draws from the node's own documents, purge and
// explain do what they say, and the node's end is told.

import assert from 'node:assert/strict'
import { live, openPage } from './browser.mjs'
import { VIEWS } from './checks.mjs'

/** Checks of the node at `base`, which has stored `object`; standard output asks for its end. */
export const real = (base, object) => ({
  async each_view_of_the_node_draws({ browser }) {
    const page = await openPage(browser, base)
    await live(page)
    for (const view of Object.keys(VIEWS)) {
      await page.evaluate(name => { location.hash = name }, view)
      const part = view === 'cluster' ? '[data-part="members"], [data-part="no-cluster"]' : `[data-part="${VIEWS[view]}"]`
      await page.waitForFunction(selector => document.querySelector(selector), part)
      await live(page)
      await page.waitForTimeout(1500)
      assert.equal(await page.getAttribute('#connection', 'data-state'), 'live', view)
      assert.doesNotMatch(await page.locator('main').innerText(), /NaN|undefined|\[object|Infinity/, view)
    }
    await page.keyboard.press('1')
    await page.waitForSelector('[data-part="answers"] tbody tr')
    assert.notEqual(await page.locator('.tile .sub').first().innerText(), '0 since the start')
    await page.locator('[data-part="history"]').scrollIntoViewIfNeeded()
    await page.waitForSelector('[data-part="history"] .line[d^="M"]', { state: 'attached' })
    assert.deepEqual(page.faults, [])
    await page.leave()
  },

  async node_explains_and_purges({ browser }) {
    const page = await openPage(browser, base, { path: '#objects' })
    await live(page)
    await page.getByRole('button', { name: `Explain ${object}` }).click()
    await page.waitForSelector('.verdict')
    assert.match(await page.locator('.verdict').innerText(), /Answered from the cache/)
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: `Purge ${object}` }).click()
    await page.locator('dialog').getByRole('button', { name: 'Purge', exact: true }).click()
    await page.waitForSelector('.toast')
    assert.match(await page.locator('.toast').innerText(), /Purged/)
    await page.waitForFunction(url => [...document.querySelectorAll('[data-part="objects"] tbody tr')].some(row => row.querySelector('.url').url === url && row.innerText.includes('not stored')), object)
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

  async hostile_request_is_shown_as_text({ browser }) {
    const page = await openPage(browser, base)
    await live(page)
    for (const view of ['objects', 'reasons', 'log']) {
      await page.evaluate(name => { location.hash = name }, view)
      await page.waitForSelector(`[data-part="${VIEWS[view]}"]`)
      await live(page)
      await page.waitForTimeout(1200)
      assert.equal(await page.evaluate(() => window.broken), undefined)
      assert.equal(await page.locator('main :is(script, iframe, img)').count(), 0)
    }
    assert.deepEqual(page.faults, [])
    await page.leave()
  },

  async end_of_the_node_is_told({ browser }) {
    const page = await openPage(browser, base, { expected: [/net::ERR_/] })
    await live(page)
    console.log('END THE NODE')
    await page.waitForSelector('#connection:is([data-state="lost"], [data-state="draining"])')
    assert.match(await page.locator('#notice').innerText(), /values below are of/)
    assert.deepEqual(page.faults, [])
    await page.leave()
  },
})
