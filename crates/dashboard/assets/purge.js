// Purge: choose what, see it written out, confirm. Everything asks for the word itself.

import { h, visible } from './dom.js'
import { whole } from './format.js'
import { confirmDialog, openDialog, toast } from './dialogs.js'
import { post } from './live.js'

const KINDS = {
  url: { label: 'One URL, all its variants', placeholder: 'http://host/path', body: text => ({ url: text }) },
  tag: { label: 'A tag', placeholder: 'product-42', body: text => ({ tag: text }) },
  host: { label: 'A host', placeholder: 'www.example.org', body: text => ({ host: text }) },
  group: { label: 'A cache group of an origin', placeholder: 'http://origin group', body: groupBody },
  all: { label: 'Everything', placeholder: '', body: () => 'all' },
}

/** Opens the choice, or with a URL the question about it; `done` is called after a purge. */
export function openPurge(url, done) {
  if (url) ask('url', url, done)
  else choose(done)
}

function choose(done) {
  const kind = h('select', { 'aria-label': 'Kind of purge', on: { change: () => fit() } }, ...Object.entries(KINDS).map(([name, { label }]) => h('option', { value: name }, label)))
  const field = h('input', { type: 'text', class: 'grow', 'aria-label': 'What to purge', spellcheck: 'false', autocomplete: 'off', maxlength: '65536', required: true })
  const fit = () => {
    field.hidden = kind.value === 'all'
    field.required = kind.value !== 'all'
    field.placeholder = KINDS[kind.value].placeholder
  }
  fit()
  const onSubmit = event => {
    event.preventDefault()
    ask(kind.value, field.value.trim(), done)
  }
  const form = h('form', { on: { submit: onSubmit } }, h('div', { class: 'bar-row' }, kind, field, h('button', { class: 'primary' }, 'Purge…')), h('p', { class: 'muted' }, 'Removes stored responses. The next request for each asks its origin. You are asked once more.'))
  openDialog('Purge', form)
  field.focus()
}

function ask(kind, text, done) {
  const { label, body } = KINDS[kind]
  const act = () => purge(body(text), done)
  const named = h('textarea', { readonly: true, 'aria-label': 'To be purged' })
  named.value = kind === 'all' ? 'Everything that is stored' : text
  if (kind !== 'all') {
    confirmDialog('Purge this?', [h('p', {}, `${label}:`), named], 'Purge', act)
    return
  }
  const word = h('input', { type: 'text', 'aria-label': 'Type everything to confirm', autocomplete: 'off', on: { input: () => { confirm.go.disabled = word.value !== 'everything' } } })
  const warning = h('p', { class: 'verdict bad' }, 'All origins get all requests until the cache has filled again.')
  const confirm = confirmDialog('Purge everything?', h('div', { class: 'stack' }, warning, h('label', { class: 'field' }, 'Type “everything” to confirm', word)), 'Purge everything', act)
  confirm.go.disabled = true
  word.focus()
}

async function purge(body, done) {
  try {
    const { purged, nodes } = await post('../purge', body)
    const spread = nodes ? ` ${whole(nodes.confirmed?.length ?? nodes.confirmed)} nodes confirmed${nodes.missing?.length ? `, missing: ${nodes.missing.join(', ')}` : ''}.` : ''
    toast(`Purged ${counted(purged?.responses)}.${spread}`)
    done()
  } catch (error) {
    toast(`Not purged: ${visible(error.message)}`)
  }
}

function counted(responses) {
  return Number.isFinite(responses) ? `${whole(responses)} ${responses === 1 ? 'response' : 'responses'}` : 'what was stored'
}

function groupBody(text) {
  const [origin, ...group] = text.split(/\s+/)
  return { group: { origin, group: group.join(' ') } }
}
