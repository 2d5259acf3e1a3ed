// Checks of the page against the mock node; each is a name and a function of browser and tools.
// A check fails by throwing.

import assert from 'node:assert/strict'
import { live, openPage } from './browser.mjs'
import { HOSTILE } from './fixtures.mjs'

/** Views, each with a part that stands only there. */
export const VIEWS = { now: 'answers', reasons: 'misses', disk: 'rings', size: 'curve', origins: 'origins', objects: 'objects', cluster: 'members', log: 'log' }

const REFUSED = [/net::ERR_/, /status of (403|400)/]

/** Runs a check with a mock of a kind and a page, and asserts that the page had no fault. */
const withPage = (kind, options, check) => async ({ browser, mockOf }) => {
  const mock = await mockOf(kind)
  const page = await openPage(browser, mock.base, options)
  await live(page)
  await check(page, mock)
  assert.deepEqual(page.faults, [])
  await page.leave()
}

const text = (page, selector) => page.locator(selector).first().innerText()
const go = async (page, view) => {
  await page.evaluate(name => { location.hash = name }, view)
  await page.waitForSelector(`[data-part="${VIEWS[view.split('?')[0]]}"]`, { state: 'attached' })
}

export const checks = {
  each_view_draws_and_is_live: withPage('busy', {}, async page => {
    for (const [view, part] of Object.entries(VIEWS)) {
      await go(page, view)
      await live(page)
      await page.waitForSelector(`[data-part="${part}"]`, { state: 'visible' })
      assert.equal(await page.locator('nav [aria-current="page"]').count(), 1, view)
      if (view !== 'now') assert.equal(await page.evaluate(() => document.activeElement.id), 'title', `focus after going to ${view}`)
    }
  }),

  numbers_move_with_events: withPage('busy', {}, async (page, mock) => {
    for (const [view, cell] of [['now', '.tile .value'], ['origins', '[data-part="origins"] tbody td:nth-child(5)'], ['disk', '[data-part="disks"] tbody td:nth-child(5)']]) {
      await go(page, view)
      await live(page)
      const before = await text(page, cell)
      mock.tick += 40
      await page.waitForFunction(([selector, old]) => document.querySelector(selector).innerText !== old, [cell, before])
    }
  }),

  log_tails_and_filters: withPage('busy', { path: '#log' }, async page => {
    const rows = '[data-part="log"] tbody tr'
    await page.waitForFunction(selector => document.querySelectorAll(selector).length > 205, rows)
    await page.getByLabel('Status, such as 404 or 5xx').fill('304')
    await page.waitForFunction(selector => {
      const cells = [...document.querySelectorAll(`${selector} td:nth-child(4)`)]
      return cells.length > 3 && cells.every(cell => cell.innerText === '304')
    }, rows)
    assert.match(page.url(), /status=304/)
  }),

  address_holds_the_view: withPage('busy', { path: '#objects?by=bytes&q=static&sort=size' }, async (page, mock) => {
    assert.equal(await text(page, '[aria-pressed="true"]:not(#pause)'), 'Bytes')
    assert.equal(await page.getByLabel('Search in URLs').inputValue(), 'static')
    await page.waitForFunction(() => document.querySelectorAll('[data-part="objects"] tbody tr').length > 0)
    const urls = await page.locator('[data-part="objects"] tbody .url').allInnerTexts()
    assert.ok(urls.every(url => url.includes('static')), urls.join())
    assert.equal(await page.locator('th[aria-sort="ascending"]').innerText(), 'Size ↑'.replace(' ↑', ''))
    await page.getByRole('button', { name: 'Origin cost' }).click()
    assert.match(page.url(), /by=cost/)
    assert.ok([...mock.streams].every(stream => stream.page === 'objects'))
    await page.keyboard.press('1')
    await page.waitForSelector('[data-part="answers"]')
    await page.goBack()
    await page.waitForSelector('[data-part="objects"]')
    assert.match(page.url(), /q=static/)
  }),

  history_changes_its_span: withPage('busy', { path: '#now?range=3600' }, async page => {
    const labels = () => page.locator('[data-part="history"] svg text').allInnerTexts()
    await page.locator('[data-part="history"]').scrollIntoViewIfNeeded()
    await page.waitForSelector('[data-part="history"] .line')
    assert.equal(await text(page, '[data-part="history"] [aria-pressed="true"]'), '1 h')
    const before = (await labels()).join()
    await page.getByRole('button', { name: '24 h' }).click()
    await page.waitForFunction(old => [...document.querySelectorAll('[data-part="history"] svg text')].map(one => one.textContent).join() !== old, before)
    assert.equal(await page.evaluate(() => document.activeElement.innerText), '24 h')
  }),

  values_show_on_hover_and_by_keys: withPage('busy', { path: '#size' }, async page => {
    const chart = page.locator('[data-part="curve"] .chart')
    await page.waitForSelector('[data-part="curve"] .line')
    await chart.hover({ position: { x: 400, y: 200 } })
    assert.match(await text(page, '[data-part="curve"] .tip'), /GiB[\s\S]*requests[\s\S]*%/)
    await page.mouse.move(5, 5)
    await chart.focus()
    await page.keyboard.press('ArrowLeft')
    const spoken = await page.locator('[data-part="curve"] .sr').textContent()
    await page.keyboard.press('ArrowLeft')
    assert.notEqual(await page.locator('[data-part="curve"] .sr').textContent(), spoken)
    await page.getByRole('button', { name: /^Values of/ }).click()
    assert.equal(await page.locator('dialog tbody tr').count(), 44)
  }),

  labels_never_cover_curves_or_poles: withPage('busy', { path: '#size' }, async page => {
    for (const width of [1280, 700, 390]) {
      await page.setViewportSize({ width, height: 800 })
      await page.waitForFunction(wanted => document.querySelector('[data-part="curve"] svg').getBoundingClientRect().width < wanted, width)
      // The browser scales the chart at once, and draws it anew a little later.
      let covered = await page.evaluate(overlaps)
      for (let tries = 0; covered.length > 0 && tries < 20; tries += 1) {
        await page.waitForTimeout(100)
        covered = await page.evaluate(overlaps)
      }
      assert.deepEqual(covered, [], `at ${width}`)
    }
  }),

  twelve_line_styles_differ: withPage('busy', {}, async page => {
    for (const theme of ['light', 'dark']) {
      const styles = await page.evaluate(drawnStyles, theme)
      assert.equal(new Set(styles).size, 12, styles.join(' | '))
    }
  }),

  purge_needs_a_confirmation: withPage('busy', { path: '#objects' }, async (page, mock) => {
    await page.waitForSelector('[data-part="objects"] tbody .url')
    const url = await page.locator('[data-part="objects"] tbody .url').first().innerText()
    await page.getByRole('button', { name: `Purge ${url}` }).click()
    assert.equal(await page.getByLabel('To be purged').inputValue(), url)
    assert.equal(await page.evaluate(() => document.activeElement.innerText), 'Cancel')
    await page.keyboard.press('Enter')
    assert.equal(mock.posts.length, 0)
    await page.getByRole('button', { name: `Purge ${url}` }).click()
    assert.equal(await page.getByLabel('To be purged').inputValue(), url)
    await page.locator('dialog').getByRole('button', { name: 'Purge', exact: true }).click()
    await page.waitForSelector('.toast')
    assert.match(await text(page, '.toast'), /Purged 3 responses/)
    assert.deepEqual(mock.posts, [{ pathname: '/purge', body: { url }, type: 'application/json' }])
  }),

  purge_chooses_its_kind: withPage('busy', {}, async (page, mock) => {
    for (const [kind, typed, body] of [['tag', 'product-42', { tag: 'product-42' }], ['host', 'a.example', { host: 'a.example' }], ['group', 'http://a.example g/1', { group: { origin: 'http://a.example', group: 'g/1' } }]]) {
      await page.keyboard.press('x')
      await page.getByLabel('Kind of purge').selectOption(kind)
      await page.getByLabel('What to purge').fill(typed)
      await page.keyboard.press('Enter')
      await page.locator('dialog').getByRole('button', { name: 'Purge', exact: true }).click()
      await page.waitForFunction(() => !document.querySelector('dialog'))
      for (let at = 0; at < 50 && !mock.posts.some(post => JSON.stringify(post.body) === JSON.stringify(body)); at += 1) await page.waitForTimeout(20)
      assert.deepEqual(mock.posts.at(-1).body, body)
    }
  }),

  purge_of_everything_needs_the_word: withPage('busy', {}, async (page, mock) => {
    await page.keyboard.press('x')
    await page.getByLabel('Kind of purge').selectOption('all')
    await page.locator('dialog').getByRole('button', { name: 'Purge…' }).click()
    const go = page.getByRole('button', { name: 'Purge everything' })
    assert.ok(await go.isDisabled())
    await page.getByLabel('Type everything to confirm').fill('everything')
    await go.click()
    await page.waitForSelector('.toast')
    assert.deepEqual(mock.posts[0].body, 'all')
  }),

  role_that_looks_cannot_purge: withPage('busy', { path: '#objects' }, async (page, mock) => {
    mock.mayChange = false
    await page.waitForFunction(() => document.getElementById('purge-open').disabled)
    await page.keyboard.press('x')
    assert.equal(await page.locator('dialog').count(), 0)
    assert.equal(mock.posts.length, 0)
  }),

  explain_reads_as_steps: withPage('busy', {}, async (page, mock) => {
    await page.keyboard.press('e')
    await page.keyboard.type('http://www.shop.example/static/a.js')
    await page.keyboard.press('Enter')
    await page.waitForSelector('.verdict')
    assert.match(await text(page, '.verdict'), /Answered from the cache/)
    const steps = await page.locator('.step h3').allInnerTexts()
    for (const step of ['Request', 'Rules that match', 'Stored now', 'Use of the cache', 'Remarks']) assert.ok(steps.includes(step), steps.join())
    assert.match(page.url(), /explain=http/)
    await page.keyboard.press('Escape')
    await page.waitForFunction(() => !location.hash.includes('explain'))
    assert.equal(mock.posts[0].pathname, '/explain')
  }),

  explained_link_opens_the_dialog: withPage('busy', { path: '#now?explain=nonsense', expected: REFUSED }, async page => {
    await page.waitForSelector('.verdict.bad')
    assert.match(await text(page, '.verdict'), /not absolute/)
  }),

  all_is_reached_by_keyboard: withPage('busy', { path: '#objects' }, async page => {
    await page.waitForSelector('[data-part="objects"] tbody .url')
    await page.evaluate(() => document.activeElement.blur())
    await page.keyboard.press('Tab')
    assert.equal(await page.evaluate(() => document.activeElement.innerText), 'Skip to the view')
    const seen = new Set()
    for (let at = 0; at < 140; at += 1) {
      await page.keyboard.press('Tab')
      seen.add(await page.evaluate(() => { const one = document.activeElement; return one.id || one.getAttribute('aria-label') || one.innerText }))
    }
    const wanted = await page.evaluate(() => [...document.querySelectorAll('a[href], button:not(:disabled), input, select')].filter(one => one.offsetParent).map(one => one.id || one.getAttribute('aria-label') || one.innerText))
    assert.deepEqual(wanted.filter(name => !seen.has(name)), [])
    await page.keyboard.press('?')
    assert.equal(await page.locator('dialog h2').innerText(), 'Keyboard shortcuts')
    await page.getByLabel('Single keys are shortcuts').uncheck()
    await page.keyboard.press('Escape')
    await page.keyboard.press('3')
    assert.match(page.url(), /#objects/)
  }),

  theme_follows_system_and_switch: withPage('busy', { theme: 'dark' }, async page => {
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
    const dark = await ground()
    await page.emulateMedia({ colorScheme: 'light' })
    const bright = await ground()
    assert.notEqual(dark, bright)
    await page.keyboard.press('t')
    assert.equal(await ground(), dark)
    await page.reload()
    await live(page)
    assert.equal(await ground(), dark)
    await page.keyboard.press('t')
    assert.equal(await ground(), bright)
    assert.doesNotMatch(page.url(), /theme/)
  }),

  site_narrows_the_numbers: withPage('busy', {}, async (page, mock) => {
    await page.getByRole('button', { name: 'docs.tools.example' }).click()
    await page.waitForFunction(() => /Numbers of the site docs/.test(document.getElementById('view').innerText))
    assert.match(page.url(), /site=docs\.tools\.example/)
    for (let at = 0; at < 50 && ![...mock.streams].some(stream => stream.query.site); at += 1) await page.waitForTimeout(20)
    assert.deepEqual([...mock.streams].map(stream => stream.query.site), ['docs.tools.example'])
    assert.ok(await page.locator('[data-part="heat"]').isHidden())
    await page.getByRole('button', { name: 'All sites' }).click()
    await page.waitForSelector('[data-part="heat"]', { state: 'visible' })
  }),

  narrow_screen_does_not_scroll_sideways: withPage('hostile', { width: 360, height: 740 }, async page => {
    for (const view of Object.keys(VIEWS)) {
      await go(page, view)
      await live(page)
      await page.waitForTimeout(150)
      const wide = await page.evaluate(() => document.documentElement.scrollWidth)
      assert.ok(wide <= 360, `${view} is ${wide} wide`)
    }
  }),

  hostile_text_stays_text: withPage('hostile', {}, async page => {
    for (const view of Object.keys(VIEWS)) {
      await go(page, view)
      await live(page)
      await page.evaluate(() => document.querySelectorAll('details').forEach(one => { one.open = true }))
      await page.waitForTimeout(100)
      const shown = await page.evaluate(() => document.body.innerText)
      assert.doesNotMatch(shown, /[\u202A-\u202E\u2066-\u2069\u0007\u001b]/u, view)
      assert.equal(await page.evaluate(() => window.broken), undefined)
      assert.equal(await page.locator('main :is(script, iframe, svg[onload], img)').count(), 0)
    }
  }),

  long_url_is_copied_whole: withPage('hostile', { path: '#objects' }, async page => {
    await page.getByRole('button', { name: /^http:\/\/long\.example/ }).first().click()
    assert.equal(await page.getByLabel('The whole URL').inputValue(), HOSTILE.long)
    assert.ok(HOSTILE.long.length > 8000)
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: /^safe\.example/ }).first().click()
    assert.equal(await page.getByLabel('The whole URL').inputValue(), HOSTILE.turned)
    assert.match(await page.locator('dialog code').innerText(), /\\u\{202E\}/)
  }),

  ten_thousand_sites_are_a_hundred_rows: withPage('many', {}, async page => {
    await page.waitForSelector('[data-part="sites"] tbody tr')
    assert.equal(await page.locator('[data-part="sites"] tbody tr').count(), 101)
    assert.match(await text(page, '[data-part="sites"] tr.rest'), /9,900 further sites/)
    await page.keyboard.press('/')
    await page.keyboard.type('tenant-00042')
    await page.waitForFunction(() => document.querySelectorAll('[data-part="sites"] tbody tr').length === 1)
  }),

  empty_node_says_so: withPage('empty', {}, async page => {
    for (const [view, words] of Object.entries({ now: /No requests yet/, reasons: /Every request so far was a hit/, disk: /no disk/, size: /No forecast yet/, origins: /No origin/, objects: /No object/, log: /No request/ })) {
      await go(page, view)
      await page.waitForFunction(([pattern]) => new RegExp(pattern).test(document.getElementById('view').innerText), [words.source])
    }
    await page.keyboard.press('7')
    await page.waitForFunction(() => /caches alone/.test(document.getElementById('view').innerText))
    assert.doesNotMatch(await text(page, 'main'), /NaN|undefined|null|Infinity/)
  }),

  dead_node_is_told_and_comes_back: withPage('busy', { expected: REFUSED }, async (page, mock) => {
    const before = await text(page, '.tile .value')
    await mock.die()
    await page.waitForSelector('#connection[data-state="lost"]')
    assert.match(await text(page, '#notice'), /No connection/)
    assert.ok(await page.evaluate(() => document.documentElement.classList.contains('aged')))
    assert.ok((await text(page, '.tile .value')).length > 0 && before.length > 0)
    mock.startedTick = mock.tick + 864321
    await mock.listen()
    await page.waitForSelector('#connection[data-state="live"]')
    assert.ok(await page.locator('#notice').isHidden())
    await page.waitForFunction(() => /started again/.test(document.getElementById('toasts').innerText))
  }),

  drain_is_told: withPage('busy', {}, async (page, mock) => {
    mock.drain()
    await page.waitForSelector('#connection[data-state="draining"]')
    assert.match(await text(page, '#notice'), /drains/)
    await page.waitForSelector('#connection[data-state="live"]')
    assert.equal(await text(page, '#node .pill'), 'draining')
  }),

  silent_node_is_noticed: withPage('busy', {}, async (page, mock) => {
    mock.silent = true
    await page.waitForSelector('#connection[data-state="lost"]', { timeout: 9000 })
    assert.match(await text(page, '#notice'), /silent/)
  }),

  refused_viewer_is_told_once: withPage('busy', { expected: REFUSED }, async (page, mock) => {
    mock.refuses = true
    await page.keyboard.press('2')
    await page.waitForSelector('#connection[data-state="refused"]')
    assert.match(await text(page, '#notice'), /log in to look/)
    mock.refuses = false
    await page.getByRole('button', { name: 'Try now' }).click()
    await page.waitForSelector('#connection[data-state="live"]')
  }),

  clock_step_is_told_and_harmless: withPage('busy', {}, async (page, mock) => {
    mock.clockMs = -7200000
    await page.waitForFunction(() => /clock has moved by -2 h/.test(document.getElementById('toasts').innerText))
    assert.equal(await page.getAttribute('#connection', 'data-state'), 'live')
  }),

  pause_ends_the_stream: withPage('busy', {}, async (page, mock) => {
    await page.keyboard.press('p')
    await page.waitForSelector('#connection[data-state="paused"]')
    for (let at = 0; at < 50 && mock.streams.size; at += 1) await page.waitForTimeout(20)
    assert.equal(mock.streams.size, 0)
    await page.keyboard.press('p')
    await live(page)
  }),
}

/** Runs in the page: texts of the chart that a curve or a pole runs through. */
function overlaps() {
  const svg = document.querySelector('[data-part="curve"] svg')
  const texts = [...svg.querySelectorAll('text')].map(one => ({ text: one.textContent, box: one.getBoundingClientRect() }))
  const inside = (box, x, y) => x > box.left + 1 && x < box.right - 1 && y > box.top + 2 && y < box.bottom - 2
  const frame = svg.getBoundingClientRect()
  const found = []
  for (const line of svg.querySelectorAll('.line')) {
    for (let at = 0; at <= 400; at += 1) {
      const { x, y } = line.getPointAtLength((line.getTotalLength() * at) / 400)
      for (const { text, box } of texts) if (inside(box, frame.left + x, frame.top + y)) found.push(`curve over ${text}`)
    }
  }
  for (const pole of svg.querySelectorAll('.mark')) {
    const [x, from, to] = ['x1', 'y1', 'y2'].map(name => Number(pole.getAttribute(name)))
    for (let y = from; y < to; y += 2) for (const { text, box } of texts) if (inside(box, frame.left + x, frame.top + y)) found.push(`pole over ${text}`)
  }
  texts.forEach((one, at) => texts.slice(at + 1).forEach(other => {
    const meet = one.box.left < other.box.right - 1 && other.box.left < one.box.right - 1 && one.box.top < other.box.bottom - 2 && other.box.top < one.box.bottom - 2
    if (meet) found.push(`${one.text} meets ${other.text}`)
  }))
  return [...new Set(found)]
}

/** Runs in the page: colour and dash of the twelve line styles. */
export function drawnStyles(theme) {
  document.documentElement.dataset.theme = theme
  const holder = document.createElement('div')
  holder.className = 'chart'
  document.body.append(holder)
  const styles = Array.from({ length: 12 }, (_, at) => {
    const path = document.createElementNS('http://www.w3.org/2000/svg', 'path')
    path.setAttribute('class', `line s${at}`)
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
    svg.append(path)
    holder.append(svg)
    const { stroke, strokeDasharray } = getComputedStyle(path)
    return `${stroke} ${strokeDasharray}`
  })
  holder.remove()
  return styles
}
