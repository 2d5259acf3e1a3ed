// Builds elements. Text from anywhere becomes a text node and never markup.

const SVG = 'http://www.w3.org/2000/svg'

/** An HTML element: `h('p', { class: 'note', on: { click } }, 'text', child)`. */
export const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children)

/** An SVG element. */
export const s = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children)

/** Sets the text if it differs, so that an unchanged cell costs no layout. */
export function setText(element, text) {
  const wanted = text ?? ''
  if (element.textContent !== wanted) element.textContent = wanted
}

/** Sets or removes a class. */
export const setClass = (element, name, on) => element.classList.toggle(name, Boolean(on))

/** A width in percent, by the object model: the page's policy allows no style attributes. */
export function setWidth(element, share) {
  const percent = `${Math.max(0, Math.min(1, share || 0)) * 100}%`
  if (element.style.width !== percent) element.style.width = percent
}

/** Text of another party: isolated, control and bidirectional characters made visible. */
export function foreign(text) {
  return h('bdi', { class: 'foreign' }, visible(text))
}

/** Writes characters that would change how their neighbours look as `\u{202E}`. */
export function visible(text) {
  return String(text ?? '').replace(HIDDEN, character => `\\u{${character.codePointAt(0).toString(16).toUpperCase()}}`)
}

/** The first and last part of a long text, cut between characters. */
export function shortened(text, most) {
  const characters = Array.from(visible(String(text ?? '').slice(0, most * 4)))
  const whole = String(text ?? '')
  if (characters.length <= most && whole.length <= most * 4) return characters.join('')
  const head = Math.ceil(most * 0.7)
  const tail = Array.from(visible(whole.slice(-(most - head) * 4))).slice(-(most - head - 1))
  return `${characters.slice(0, head).join('')}…${tail.join('')}`
}

/** Text with `code` in backticks; a click or Enter copies the code. */
export function rich(text) {
  const parts = visible(text).split('`')
  return parts.map((part, at) => (at % 2 ? copyable(part) : document.createTextNode(part)))
}

/** Puts text on the clipboard; without permission the old way does it. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const field = h('textarea', { 'aria-label': 'Text to copy', class: 'sr' })
    field.value = text
    const host = document.querySelector('dialog[open]') ?? document.body
    host.append(field)
    field.select()
    const done = document.execCommand('copy')
    field.remove()
    return done
  }
}

function copyable(text) {
  const taken = () => copy(text).then(done => element.setAttribute('data-copied', done))
  const onKey = event => { if (event.key === 'Enter') taken() }
  const element = h('code', { class: 'copy', tabindex: '0', role: 'button', title: 'Copy', on: { click: taken, keydown: onKey } }, text)
  return element
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue
    if (name === 'on') for (const [event, act] of Object.entries(value)) element.addEventListener(event, act)
    else element.setAttribute(name, value === true ? '' : value)
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false))
  return element
}

// Controls, soft hyphen, zero-width and bidirectional characters, line separators, interlinear
// marks, tags, and unpaired surrogates.
const HIDDEN = /[\p{Cc}\p{Cs}\u00AD\u061C\u115F\u1160\u17B4\u17B5\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFA0\uFFF9-\uFFFB]|[\u{E0000}-\u{E007F}]/gu
