// Runs the checks of the page: `node run.mjs [--only NAME] [--screenshots FOLDER] [--node URL --object URL]`.
// With `--node` the views of a real node are checked in place of the mock's; with `--file PATH` a page
// that stands alone, of which `--pictures NAME` takes pictures.

import { Mock } from './mock.mjs'
import { bars } from './bars.mjs'
import { checks } from './checks.mjs'
import { launch } from './browser.mjs'
import { real } from './real.mjs'
import { standalone, takePictures } from './standalone.mjs'
import { takeScreenshots } from './screenshots.mjs'

const options = Object.fromEntries(process.argv.slice(2).map((word, at, all) => [word, all[at + 1]]).filter(([word]) => word.startsWith('--')))
const figures = []
const mocks = []

async function mockOf(kind) {
  const mock = new Mock(kind)
  mock.base = await mock.listen()
  mocks.push(mock)
  return mock
}

const browser = await launch()
let failed = 0
try {
  if (options['--screenshots']) await takeScreenshots({ browser, mockOf, folder: options['--screenshots'] })
  else if (options['--pictures']) await takePictures(browser, options['--file'], options['--pictures'])
  else {
    const all = options['--node'] ? real(options['--node'], options['--object']) : options['--file'] ? standalone(options['--file']) : { ...checks, ...bars }
    const chosen = Object.entries(all).filter(([name]) => !options['--only'] || name.includes(options['--only']))
    for (const [name, check] of chosen) failed += await run(name, check)
    if (!chosen.length) throw new Error('no check has this name')
  }
} finally {
  for (const figure of figures) console.log(figure)
  await browser.close()
  for (const mock of mocks) await mock.die().catch(() => {})
}
console.log(failed ? `${failed} failed` : 'all passed')
process.exit(failed ? 1 : 0)

async function run(name, check) {
  const started = Date.now()
  const limit = new Promise((_, fail) => setTimeout(() => fail(new Error('took more than five minutes')), 300000).unref())
  try {
    await Promise.race([check({ browser, mockOf, figures }), limit])
    console.log(`ok ${name} (${Date.now() - started} ms)`)
    return 0
  } catch (error) {
    console.log(`FAILED ${name}: ${error.message}`)
    return 1
  } finally {
    for (const context of browser.contexts()) await context.close()
  }
}
