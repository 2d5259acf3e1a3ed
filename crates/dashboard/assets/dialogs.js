// Dialogs and messages: one dialog at a time, closed by Escape, focus goes back to where it was.

import { h, copy, visible } from './dom.js'

/** Opens a dialog; `actions` are buttons besides Close. */
export function openDialog(title, body, actions = [], onClose) {
  closeDialog()
  const close = h('button', { type: 'button', class: 'plain', on: { click: () => dialog.close() } }, 'Close')
  const foot = h('div', { class: 'actions' }, ...actions, close)
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' }, h('h2', { id: 'dialog-title' }, title), ...[body].flat(), foot)
  const before = document.activeElement
  dialog.addEventListener('close', () => {
    dialog.remove()
    if (before?.isConnected) before.focus({ preventScroll: true })
    onClose?.()
  })
  dialog.addEventListener('click', event => { if (event.target === dialog && outside(dialog, event)) dialog.close() })
  document.body.append(dialog)
  dialog.showModal()
  return dialog
}

/** Closes the open dialog, if there is one. */
export function closeDialog() {
  const open = document.querySelector('dialog[open]')
  if (!open) return
  open.close()
  open.remove()
}

/** The dialog that is open. */
export const dialogIsOpen = () => document.querySelector('dialog[open]') !== null

/** Asks before a change: the safe answer has the focus. */
export function confirmDialog(title, body, action, act) {
  const go = h('button', { type: 'button', class: 'danger', on: { click: () => { dialog.close(); act() } } }, action)
  const dialog = openDialog(title, body, [go])
  const cancel = dialog.querySelector('.actions').lastChild
  cancel.textContent = 'Cancel'
  cancel.focus()
  return { dialog, go }
}

/** A short message that goes away; screen readers say it. */
export function toast(text) {
  const message = h('p', { class: 'toast' }, visible(text))
  const list = document.getElementById('toasts')
  list.append(message)
  while (list.children.length > 3) list.firstChild.remove()
  setTimeout(() => message.remove(), 8000)
}

/** Shows a URL, to be copied; with the `whole` of it, to be explained or purged. */
export function openAddress(shown, whole = shown) {
  const url = whole ?? shown
  const field = h('textarea', { readonly: true, 'aria-label': 'The whole URL', spellcheck: 'false' })
  field.value = url
  const size = new TextEncoder().encode(url).length
  const onCopy = async () => { toast((await copy(url)) ? 'The URL is on the clipboard.' : 'The browser does not let the page copy.') }
  const send = name => () => {
    dialog.close()
    dispatchEvent(new CustomEvent(`shoal:${name}`, { detail: url }))
  }
  const action = (text, act) => h('button', { type: 'button', class: 'plain', on: { click: act } }, text)
  const list = whole === null ? [action('Copy', onCopy)] : [action('Copy', onCopy), action('Explain', send('explain')), action('Purge…', send('purge'))]
  const cut = whole === null ? [h('p', { class: 'muted' }, 'The node has kept the beginning of this URL only. Explain and purge need the whole.')] : []
  const changed = visible(url) === url ? [] : [h('p', { class: 'muted' }, 'With its hidden characters written out: ', h('code', {}, visible(url).slice(0, 2000)))]
  const dialog = openDialog(`${whole === null ? 'Beginning of a URL,' : 'URL of'} ${size.toLocaleString('en')} bytes`, h('div', { class: 'stack' }, field, ...cut, ...changed), list)
  field.focus()
}

/** Shows the values of a chart as a table. */
export function openValues(title, { heads, lines }) {
  const shown = lines.slice(0, 500)
  const table = h('table', {}, h('caption', {}, title),
    h('thead', {}, h('tr', {}, ...heads.map((text, at) => h('th', { scope: 'col', class: at ? 'n' : '' }, text)))),
    h('tbody', {}, ...shown.map(cells => h('tr', {}, ...cells.map((text, at) => h(at ? 'td' : 'th', { class: at ? 'n' : '', scope: at ? undefined : 'row' }, visible(text)))))))
  openDialog(title, h('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': title }, table))
}

function outside(dialog, event) {
  const box = dialog.getBoundingClientRect()
  return event.clientX < box.left || event.clientX > box.right || event.clientY < box.top || event.clientY > box.bottom
}
