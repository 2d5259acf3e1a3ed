// Screenshots of each view in both themes, made small by a palette.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { live, openPage } from './browser.mjs'
import { VIEWS } from './checks.mjs'
import { reduced } from './palette.mjs'

/** Writes `VIEW-THEME.png` for all views into the folder. */
export async function takeScreenshots({ browser, mockOf, folder }) {
  mkdirSync(folder, { recursive: true })
  for (const theme of ['light', 'dark']) {
    for (const view of Object.keys(VIEWS)) {
      const mock = await mockOf('busy')
      Object.assign(mock, { tick: 1000, startedTick: 1000 })
      const page = await openPage(browser, mock.base, { theme, path: `#${view}` })
      await live(page)
      await page.waitForSelector(`[data-part="${VIEWS[view]}"]`)
      if (view === 'reasons') await page.locator('summary').first().click()
      await page.mouse.move(1275, 795)
      await page.waitForTimeout(500)
      const png = reduced(await page.screenshot(), 60_000)
      writeFileSync(join(folder, `${view}-${theme}.png`), png)
      console.log(`${view}-${theme}.png ${png.length}`)
      await page.leave()
    }
  }
}
