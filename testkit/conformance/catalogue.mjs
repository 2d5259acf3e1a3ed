// Prints the suite's tests as JSON.
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const suite = path.resolve(process.argv[2])
const load = file => import(pathToFileURL(path.join(suite, file)))

const groups = [...(await load('tests/index.mjs')).default, (await load('tests/surrogate-control.mjs')).default]
const tests = groups.flatMap(group => group.tests.map(test => ({
  id: test.id,
  name: test.name,
  group: group.name,
  kind: test.kind ?? 'required',
  browser_only: test.browser_only === true,
  depends_on: test.depends_on ?? []
})))
console.log(JSON.stringify(tests))
