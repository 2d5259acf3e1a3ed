// Headless Chromium for the tests: one browser, pages that note each error and foreign request.

import { chromium } from 'playwright-core'

const EXECUTABLE = process.env.SHOAL_CHROMIUM ?? '/usr/bin/chromium'
const ARGUMENTS = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--js-flags=--expose-gc', '--disable-font-subpixel-positioning', '--hide-scrollbars']

/** Starts the browser. */
export const launch = () => chromium.launch({ executablePath: EXECUTABLE, headless: true, args: ARGUMENTS })

/** A page at a node: `faults` gathers console errors, exceptions and requests elsewhere. */
export async function openPage(browser, base, { width = 1280, height = 800, theme = 'light', path = '', expected = [] } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: 'reduce' })
  const page = await context.newPage()
  const faults = []
  const note = text => { if (!expected.some(pattern => pattern.test(text))) faults.push(text) }
  page.on('console', message => { if (['error', 'warning'].includes(message.type())) note(`console: ${message.text()}`) })
  page.on('pageerror', error => note(`exception: ${error.message}`))
  page.on('request', request => { if (!request.url().startsWith(base) && !request.url().startsWith('data:')) note(`request to ${request.url()}`) })
  await page.goto(`${base}/ui/${path}`)
  return Object.assign(page, { faults, leave: () => context.close() })
}

/** Waits until the page is live and has drawn a document. */
export async function live(page) {
  await page.waitForSelector('#connection[data-state="live"]')
  await page.waitForSelector('#view > :not([hidden])')
}
