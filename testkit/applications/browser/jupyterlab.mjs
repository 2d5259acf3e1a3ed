// Opens a notebook of JupyterLab in headless Chromium without a cache of its own, adds a cell, runs it and waits for its result.

import { chromium } from 'playwright-core'

const EXECUTABLE = process.env.SHOAL_CHROMIUM ?? '/usr/bin/chromium'
const browser = await chromium.launch({ executablePath: EXECUTABLE, headless: true, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] })
try {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 } })
  const page = await context.newPage()
  const failed = []
  page.on('response', response => { if (response.status() >= 500) failed.push(`${response.status()} ${response.url()}`) })
  page.on('requestfailed', request => { const why = request.failure()?.errorText; if (why !== 'net::ERR_ABORTED') failed.push(`${why} ${request.url()}`) })
  await page.goto(process.argv[2], { timeout: 120_000 })
  const editor = page.locator('.jp-Notebook .jp-CodeCell .cm-content').first()
  await editor.waitFor({ timeout: 120_000 })
  // The kernel is there when its status says so.
  await page.locator('.jp-NotebookPanel-toolbar .jp-Notebook-ExecutionIndicator[data-status="idle"]').waitFor({ timeout: 120_000 })
  await editor.click()
  await page.keyboard.press('Control+A')
  await page.keyboard.type('print(6 * 7 * 1001)')
  await page.keyboard.press('Shift+Enter')
  await page.locator('.jp-OutputArea-output', { hasText: '42042' }).first().waitFor({ timeout: 40_000 })
  if (failed.length) throw new Error(failed.join('\n'))
} finally {
  await browser.close()
}
