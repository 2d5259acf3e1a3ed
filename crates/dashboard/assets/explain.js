// Explains a URL: asks `POST /explain` and writes the answer as steps that an operator can read.

import { h, rich, visible } from './dom.js'
import { bytes, plain, span } from './format.js'
import { openDialog } from './dialogs.js'
import { post } from './live.js'

/** Opens the dialog; with a URL it asks at once. `onUrl` hears which URL is shown, `''` at the end. */
export function openExplain(url, onUrl) {
  const field = h('input', { type: 'text', class: 'grow', 'aria-label': 'URL', placeholder: 'http://host/path', spellcheck: 'false', autocomplete: 'off', required: true, maxlength: '65536' })
  field.value = url
  const method = h('select', { 'aria-label': 'Method' }, ...['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS'].map(name => h('option', {}, name)))
  const answer = h('div', { class: 'steps', 'aria-live': 'polite' })
  let asked = 0
  const ask = async () => {
    const number = (asked += 1)
    onUrl(field.value)
    answer.replaceChildren(h('p', { class: 'muted' }, 'Asking the node …'))
    const steps = await explained(field.value, method.value)
    if (number === asked) answer.replaceChildren(...steps)
  }
  const onSubmit = event => {
    event.preventDefault()
    ask()
  }
  const form = h('form', { on: { submit: onSubmit } }, h('div', { class: 'bar-row' }, method, field, h('button', { class: 'primary' }, 'Explain')), h('p', { class: 'muted' }, 'Nothing is fetched, counted or changed.'))
  openDialog('What happens to this request?', [form, answer], [], () => onUrl(''))
  field.focus()
  if (url) ask()
}

async function explained(url, method) {
  try {
    return stepsOf(await post('../explain', { url, method }))
  } catch (error) {
    return [h('p', { class: 'verdict bad' }, visible(error.message))]
  }
}

/** The answer as elements: the verdict first, then what leads to it. */
function stepsOf(told) {
  return [verdict(told), request(told), refusal(told), mirror(told.mirror), rules(told.rules), conditions(told), stored(told.stored), reuse(told.reuse), storing(told.storing), notes(told.notes)].filter(Boolean)
}

function verdict({ refusal: refused, reuse: use, storing: answer }) {
  const say = (text, tone) => h('p', { class: `verdict ${tone}` }, visible(text))
  if (refused) return say(refused.location ? `Redirected to ${refused.location}` : `Refused with ${refused.status}: ${refused.reason}`, 'bad')
  const keeping = answer ? (answer.stored ? ' Its answer is stored.' : ` Its answer is not stored (${answer.detail ?? 'no reason given'}).`) : ''
  if (use?.hit === true) return say(`Answered from the cache. ${use.reason}`, '')
  if (use?.hit === false) return say(`The origin is asked${use.fwd ? ` (${use.fwd})` : ''}.${keeping}`, answer?.stored === false ? 'bad' : 'warn')
  return say(use?.reason || `What is stored decides.${keeping}`, 'warn')
}

const request = ({ method, url, client, listener, site, target }) => step('Request', [
  ['request', `${method} ${url}`],
  ['client', client],
  ['listener', listener && `${listener.address} (${listener.mode}${listener.tls ? ', TLS' : ''})`],
  ['site', site && `${site.key}${lineOf(site)}: ${site.hosts.join(', ')}${site.path_prefix ?? ''}`],
  ['upstreams', site?.upstreams?.map(one => one.url).join(', ')],
  ['cache key', target?.key],
  ['asked for', target?.upstream_path],
])

const refusal = ({ refusal: refused }) => refused && step('Refusal', [['status', refused.status], ['setting', refused.setting], ['reason', refused.reason], ['detail', refused.detail], ['goes to', refused.location]])

const mirror = told => told && step('Mirror', [['name', `${told.name} (${told.kind})`], ['package', told.package], ['class', told.class], ['place', told.place], ['verdict', told.verdict]])

function rules(told) {
  if (!told) return null
  if (!told.matching?.length) return step('Rules', [['matching', 'none']])
  const lines = told.matching.flatMap(rule => [
    [`${rule.key}${lineOf(rule)}`, [rule.name, ...rule.conditions.map(pair => pair.join(' = '))].filter(Boolean).join(', ')],
    ...rule.settings.map(setting => ['', `${setting.name} = ${setting.value}${partOf(setting)}`]),
  ])
  if (told.left_out) lines.push(['further', `${told.left_out} rules that match`])
  return step('Rules that match', lines, told.combination)
}

function conditions({ guards = [], rates = [], error_pages: pages = [] }) {
  const lines = [
    ...guards.map(guard => [guard.setting, guard.value]),
    ...rates.map(rate => [rate.setting, `${plain(rate.per_second)} a second, ${rate.burst} at once${rate.wait_seconds ? `; the client waits ${rate.wait_seconds} s` : ''}`]),
    ...pages.map(page => [page.setting, `${page.file} for errors of the ${page.sender}: ${page.statuses.join(', ')}`]),
  ]
  return lines.length ? step('Access, rates, error pages', lines) : null
}

const stored = told => told && step('Stored now', told.kind === 'nothing' ? [['stored', told.remembered_as_unstorable ? 'nothing; an answer could not be stored lately' : 'nothing']] : [
  ['stored', `${told.kind}, status ${told.status ?? '–'}, ${bytes(told.body_bytes)}`],
  ['where', [told.tier && `answers from ${told.tier}`, told.on_disk && 'on disk'].filter(Boolean).join(', ')],
  ['age', told.age_seconds !== null && span(told.age_seconds)],
  ['fresh for', told.ttl_seconds !== null && (told.ttl_seconds > 0 ? `${span(told.ttl_seconds)} more` : `stale for ${span(-told.ttl_seconds)}`)],
  ['fresh until', told.fresh_until],
  ['varies by', told.varies_by?.map(list => list.join(', ')).join('; ')],
  ['variants', told.variants?.map(variantText).join('; ')],
  ['when stale', told.forbids_stale ? 'is never served stale' : [told.stale_while_revalidate_seconds && `served ${span(told.stale_while_revalidate_seconds)} while it is validated`, told.stale_if_error_seconds && `${span(told.stale_if_error_seconds)} for errors`].filter(Boolean).join(', ')],
])

const reuse = told => told && step('Use of the cache', [['reason', told.reason], ['fwd', told.fwd], ['detail', told.detail], ['to change it', told.remedy]])

const storing = told => told && step(`Storing of the answer (${{ given: 'as given', stored: 'as stored', plain: 'a 200 without fields' }[told.answer] ?? told.answer})`, [
  ['stored', told.stored ? 'yes' : 'no'],
  ['reason', told.reason],
  ['detail', told.detail],
  ['lifetime', told.lifetime_seconds !== null && `${span(told.lifetime_seconds)}${told.lifetime_source ? ` by ${told.lifetime_source}` : ''}${told.limited ? ', limited by a rule' : ''}`],
  ['decided by', told.decided_by],
  ['to change it', told.remedy],
])

const notes = list => (list?.length ? step('Remarks', list.map(text => ['', text])) : null)

/** A step: names and values, without what is unknown. */
function step(title, pairs, below) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== null && value !== false && value !== '')
  const value = (name, text) => h('dd', { class: name === 'to change it' ? 'remedy' : '' }, h('bdi', {}, ...rich(String(text))))
  const list = h('dl', {}, ...known.flatMap(([name, text]) => [h('dt', {}, visible(name)), value(name, text)]))
  return h('section', { class: 'step' }, h('h3', {}, title), list, below && h('p', { class: 'muted' }, visible(below)))
}

const lineOf = ({ line }) => (line ? ` (line ${line})` : '')
const partOf = ({ part, overruled_by: by }) => ({ wins: '', overruled: ` – overruled by ${by}`, other_response: ' – for other responses', other_status: ' – for other statuses' })[part] ?? ''
const variantText = ({ fields, tier, is_selected: selected }) => `${fields.map(([name, value]) => `${name}: ${value ?? 'absent'}`).join(', ')} (${tier}${selected ? ', selected' : ''})`
