// Connection to the node: one document, then an event a second. A dead connection is noticed by
// silence on the browser's steady clock, so that clock steps of either side change nothing.

/** Longest silence of a living node. */
const SILENCE_MS = 6000
/** First and longest pause between attempts. */
const PAUSE_MS = [1000, 10000]

/** Live documents of one view, until `stop`. */
export class Live {
  /** Hears `onDocument(document)`, `onLine(line)`, `onSkipped(n)` and `onState(state, detail)`. */
  constructor(page, query, hears) {
    this.page = page
    this.query = query
    this.hears = hears
    this.pause = PAUSE_MS[0]
    this.timers = new Set()
    this.aborted = new AbortController()
  }

  /** Fetches the first document, draws it, and opens the stream. */
  async start() {
    try {
      const document = await fetchJson(`data/${this.page}${search(this.query)}`, this.aborted.signal)
      if (this.aborted.signal.aborted) return
      this.hears.onDocument(document)
      this.open()
    } catch (error) {
      if (this.aborted.signal.aborted) return
      if (error.status === 401 || error.status === 403) this.hears.onState('refused', error.message)
      else this.lose(error.status ? error.message : 'the node does not answer')
    }
  }

  /** Ends the stream; nothing is heard afterwards. */
  stop() {
    this.aborted.abort()
    this.close()
    this.timers.forEach(clearTimeout)
    this.timers.clear()
  }

  open() {
    const parameters = new URLSearchParams(this.query)
    parameters.set('page', this.page)
    const source = new EventSource(`live?${parameters}`)
    this.source = source
    const heard = act => event => {
      if (source !== this.source) return
      this.sign()
      act?.(event)
    }
    source.addEventListener(this.page, heard(event => this.hears.onDocument(JSON.parse(event.data))))
    source.addEventListener('line', heard(event => this.hears.onLine(JSON.parse(event.data))))
    source.addEventListener('skipped', heard(event => this.hears.onSkipped(JSON.parse(event.data).skipped)))
    source.addEventListener('tick', heard())
    source.addEventListener('open', heard())
    source.addEventListener('ended', heard(() => this.lose('the node drains and ends', 'draining')))
    source.addEventListener('error', () => {
      if (source === this.source) this.lose('the connection broke')
    })
  }

  /** Notes a sign of life, and waits for the next one. */
  sign() {
    this.pause = PAUSE_MS[0]
    clearTimeout(this.watch)
    this.watch = setTimeout(() => this.lose('the node is silent'), SILENCE_MS)
    this.hears.onState('live')
  }

  lose(why, state = 'lost') {
    this.close()
    this.hears.onState(state, why)
    const timer = setTimeout(() => {
      this.timers.delete(timer)
      this.start()
    }, this.pause)
    this.timers.add(timer)
    this.pause = Math.min(this.pause * 2, PAUSE_MS[1])
  }

  close() {
    clearTimeout(this.watch)
    this.source?.close()
    this.source = undefined
  }
}

/** The JSON at an address; an error has the status and the node's words. */
export async function fetchJson(address, signal, options) {
  const limit = AbortSignal.timeout(20000)
  const response = await fetch(address, { ...options, signal: signal ? AbortSignal.any([signal, limit]) : limit })
  if (response.ok) return response.json()
  const text = (await response.text()).slice(0, 500)
  const said = saidIn(text) || `the node answers ${response.status}`
  throw Object.assign(new Error(said), { status: response.status })
}

/** Posts JSON to the admin listener: the one way by which the page changes anything. */
export function post(path, body) {
  const headers = { 'Content-Type': 'application/json' }
  return fetchJson(path, undefined, { method: 'POST', body: JSON.stringify(body), headers })
}

/** `?a=b` of an object, without empty values. */
export function search(query) {
  const kept = Object.entries(query).filter(([, value]) => value !== '' && value !== undefined)
  return kept.length ? `?${new URLSearchParams(kept)}` : ''
}

function saidIn(text) {
  try {
    return JSON.parse(text).error ?? ''
  } catch {
    return text.trim()
  }
}
