// Checks of pages that stand alone in a file: a plan's and a report's. `run.mjs --file PATH`.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { drawnStyles } from './checks.mjs'
import { reduced } from './palette.mjs'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Opens the file: `faults` gathers console errors, exceptions and requests for anything else. */
async function openFile(browser, path, { width = 1100, height = 900, theme = 'light', scripts = true } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: 'reduce', javaScriptEnabled: scripts })
  const page = await context.newPage()
  const faults = []
  const address = pathToFileURL(path).href
  page.on('console', message => { if (['error', 'warning'].includes(message.type())) faults.push(`console: ${message.text()}`) })
  page.on('pageerror', error => faults.push(`exception: ${error.message}`))
  page.on('request', request => { if (request.url().split('#')[0] !== address) faults.push(`request to ${request.url()}`) })
  await page.goto(address)
  return Object.assign(page, { faults, leave: () => context.close() })
}

const withFile = (path, options, check) => async ({ browser, figures }) => {
  const page = await openFile(browser, path, options)
  await check(page, figures)
  assert.deepEqual(page.faults, [])
  await page.leave()
}

export const standalone = path => ({
  figures_are_drawn_by_the_dashboards_chart: withFile(path, {}, async (page, figures) => {
    const data = JSON.parse(await page.locator('#shoal-figures').textContent())
    assert.ok(data.length > 0)
    assert.equal(await page.locator('.drawing .chart.focusable').count(), data.length)
    for (const figure of data) {
      const lines = await page.locator(`#drawing-${figure.name} .line`).count()
      assert.equal(lines, figure.series.length, figure.name)
    }
    assert.doesNotMatch(await page.locator('main').innerText(), /NaN|undefined|\[object|Infinity/)
    figures.push(`${path.split('/').at(-1)}: ${Math.round(readFileSync(path).length / 1024)} KB`)
  }),

  lines_differ_in_colour_dash_and_mark: withFile(path, {}, async page => {
    for (const theme of ['light', 'dark']) assert.equal(new Set(await page.evaluate(drawnStyles, theme)).size, 12)
    const drawn = await page.evaluate(() => [...document.querySelectorAll('.drawing')].map(place => {
      const named = [...place.querySelectorAll('text.end:not(.level)')].map(text => {
        const { stroke, strokeDasharray } = getComputedStyle(place.querySelector(`.line.${text.classList[1]}`))
        const mark = text.previousElementSibling
        if (!mark.classList.contains('mark-of')) return `no mark beside ${text.textContent}`
        return `${stroke} ${strokeDasharray} ${mark.getAttribute('d')} ${mark.classList.contains('open')}`
      })
      return [named.length, new Set(named).size, named.join()]
    }))
    for (const [lines, different, all] of drawn) assert.ok(different === lines && !all.includes('no mark'), all)
  }),

  values_show_on_hover_and_by_keys: withFile(path, {}, async page => {
    const chart = page.locator('.chart.focusable').first()
    await chart.scrollIntoViewIfNeeded()
    await chart.hover({ position: { x: 300, y: 150 } })
    assert.match(await chart.locator('.tip').innerText(), /\d/)
    await chart.focus()
    await page.keyboard.press('End')
    const last = await chart.locator('.sr').textContent()
    await page.keyboard.press('ArrowLeft')
    assert.notEqual(await chart.locator('.sr').textContent(), last)
    await page.getByRole('button', { name: /^Values of/ }).first().click()
    assert.ok(await page.locator('dialog tbody tr').count() > 2)
    await page.keyboard.press('Escape')
  }),

  labels_never_cover_curves: withFile(path, {}, async page => {
    for (const width of [1100, 700, 400]) {
      await page.setViewportSize({ width, height: 900 })
      await page.waitForTimeout(200)
      assert.deepEqual(await page.evaluate(overlaps), [], `at ${width}`)
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width, `sideways at ${width}`)
    }
  }),

  commands_are_copied: withFile(path, {}, async page => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: 'Copy the command' }).click()
    await page.waitForFunction(() => [...document.querySelectorAll('button')].some(one => one.textContent === 'Copied'))
    const copied = await page.evaluate(() => navigator.clipboard.readText())
    assert.equal(copied, await page.locator('pre.command').textContent())
    await page.getByRole('button', { name: /^Copy the values of/ }).first().click()
    await page.waitForTimeout(100)
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^series,.+\n.+,/)
  }),

  theme_turns_and_axe_finds_nothing: withFile(path, { theme: 'dark' }, async page => {
    await page.evaluate(() => document.querySelectorAll('details').forEach(one => { one.open = true }))
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
    const dark = await ground()
    assert.deepEqual(await axeFindings(page), [])
    await page.locator('#shoal-theme').click()
    await page.locator('#shoal-theme').click()
    assert.equal(await page.locator('#shoal-theme').innerText(), 'Theme: light')
    assert.notEqual(await ground(), dark)
    assert.deepEqual(await axeFindings(page), [])
  }),

  pictures_stay_without_scripts: withFile(path, { scripts: false }, async page => {
    assert.ok(await page.locator('.drawing > svg.shoal-figure').count() > 0)
    assert.equal(await page.locator('#shoal-theme').isVisible(), false)
  }),
})

/** What axe has against the page as it is. */
async function axeFindings(page) {
  await page.evaluate(AXE)
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
  return violations.map(one => `${one.impact} ${one.id}: ${one.nodes[0].html.slice(0, 160)}`)
}

/** Writes `NAME-THEME.png`: the beginning of the page in both themes. */
export async function takePictures(browser, path, name) {
  for (const theme of ['light', 'dark']) {
    const page = await openFile(browser, path, { theme, width: 920, height: 1240 })
    await page.waitForTimeout(300)
    writeFileSync(`${name}-${theme}.png`, reduced(await page.screenshot(), 60_000))
    await page.leave()
  }
}

/** Runs in the page: texts that lie on a curve, on a pole or on another text, in each chart. */
function overlaps() {
  const inside = (box, x, y) => x > box.left + 1 && x < box.right - 1 && y > box.top + 2 && y < box.bottom - 2
  const found = []
  for (const svg of document.querySelectorAll('.chart.focusable > svg')) {
    const texts = [...svg.querySelectorAll('text')].map(one => ({ text: one.textContent, box: one.getBoundingClientRect() }))
    const frame = svg.getBoundingClientRect()
    for (const line of svg.querySelectorAll('.line')) {
      const length = line.getTotalLength()
      for (let at = 0; length > 0 && at <= 400; at += 1) {
        const { x, y } = line.getPointAtLength((length * at) / 400)
        for (const { text, box } of texts) if (inside(box, frame.left + x, frame.top + y)) found.push(`curve over ${text}`)
      }
    }
    for (const pole of svg.querySelectorAll('.mark')) {
      const [x, from, to] = ['x1', 'y1', 'y2'].map(name => Number(pole.getAttribute(name)))
      for (let y = from; y < to; y += 2) for (const { text, box } of texts) if (inside(box, frame.left + x, frame.top + y)) found.push(`pole over ${text}`)
    }
    texts.forEach((one, at) => texts.slice(at + 1).forEach(other => {
      const meet = one.box.left < other.box.right - 1 && other.box.left < one.box.right - 1 && one.box.top < other.box.bottom - 3 && other.box.top < one.box.bottom - 3
      if (meet) found.push(`${one.text} meets ${other.text}`)
    }))
    for (const { text, box } of texts) if (box.right > frame.right + 1) found.push(`${text} is cut`)
  }
  return [...new Set(found)]
}
