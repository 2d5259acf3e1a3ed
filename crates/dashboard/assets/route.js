// The address holds the view: `#objects?by=bytes&site=a.example`. A link shows a colleague the same.

/** Parts of a fragment: the page's name and its parameters. */
export function parse(fragment) {
  const text = fragment.replace(/^#\/?/, '')
  const at = text.indexOf('?')
  const page = at < 0 ? text : text.slice(0, at)
  return { page, parameters: new URLSearchParams(at < 0 ? '' : text.slice(at + 1)) }
}

/** The fragment of a view; parameters without a value are left out. */
export function written(page, parameters) {
  const kept = new URLSearchParams()
  for (const [name, value] of parameters) if (value !== '') kept.append(name, value)
  const query = kept.toString()
  return `#${page}${query ? `?${query}` : ''}`
}

/** Route of the page: reads and changes the address. */
export class Route {
  constructor(onChange) {
    this.onChange = onChange
    addEventListener('hashchange', () => this.onChange())
  }

  get page() {
    return parse(location.hash).page
  }

  get(name) {
    return parse(location.hash).parameters.get(name) ?? ''
  }

  /** Goes to another page, which a click on Back leaves again. */
  go(page, parameters = {}) {
    location.hash = written(page, Object.entries(parameters))
  }

  /** Changes parameters of this page in place and tells the page if `tell`. */
  set(changes, tell = true) {
    const { page, parameters } = parse(location.hash)
    for (const [name, value] of Object.entries(changes)) parameters.set(name, value ?? '')
    const fragment = written(page || 'now', parameters)
    if (fragment === location.hash) return
    history.replaceState(null, '', fragment)
    if (tell) this.onChange()
  }
}
