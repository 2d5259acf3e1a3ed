// Scales and ticks of charts, and places for labels that must not overlap. Nothing here draws.

/** A linear scale from `domain` to `range`. */
export function linear([from, to], [start, end]) {
  const width = to - from || 1
  const at = value => start + ((value - from) / width) * (end - start)
  return { at, back: place => from + ((place - start) / (end - start || 1)) * width, domain: [from, to] }
}

/** A logarithmic scale; the domain is above zero. */
export function logarithmic([from, to], range) {
  const inner = linear([Math.log(from), Math.log(Math.max(to, from * 1.0001))], range)
  return { at: value => inner.at(Math.log(Math.max(value, from))), back: place => Math.exp(inner.back(place)), domain: [from, to] }
}

/** About `wanted` round steps from 0 or below to above `most`. */
export function roundTicks(least, most, wanted = 4) {
  const rough = (most - least || 1) / wanted
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 2.5, 5, 10].map(factor => factor * power).find(size => size >= rough * 0.999)
  const ticks = []
  for (let at = Math.floor(least / step); at * step < most + step * 0.999; at += 1) ticks.push(Number((at * step).toPrecision(12)))
  return ticks
}

/** Ticks in binary units, so that axes of bytes read `256 MiB` and not `244 MiB`. */
export function byteTicks(most, wanted = 4) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(most, 1)) / Math.log(1024)))
  return roundTicks(0, most / unit, wanted).map(value => value * unit)
}

/** Powers of `base` within the domain, thinned to at most `most`. */
export function powerTicks([from, to], base, most = 7) {
  const first = Math.ceil(Math.log(from) / Math.log(base) - 1e-9)
  const last = Math.floor(Math.log(to) / Math.log(base) + 1e-9)
  const step = Math.max(1, Math.ceil((last - first + 1) / most))
  const ticks = []
  for (let power = first; power <= last; power += step) ticks.push(base ** power)
  return ticks
}

/** Round times within the span, in Unix milliseconds: whole minutes, hours. */
export function timeTicks([from, to], wanted = 6) {
  const minutes = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440]
  const step = (minutes.find(size => (to - from) / (size * 60000) <= wanted) ?? 1440) * 60000
  const offset = new Date(to).getTimezoneOffset() * 60000
  const ticks = []
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step) ticks.push(at)
  return ticks
}

/**
 * Moves wished places apart until each has `gap`, within the bounds; the order is kept. Places that
 * meet become a group around their mean.
 */
export function spread(wished, gap, [low, high]) {
  const order = wished.map((place, at) => ({ place, at })).sort((a, b) => a.place - b.place)
  const span = group => (group.length - 1) * gap
  const mean = group => group.reduce((sum, one) => sum + one.place, 0) / group.length
  const start = group => Math.max(low, Math.min(mean(group) - span(group) / 2, high - span(group)))
  const groups = []
  for (const one of order) {
    groups.push([one])
    while (groups.length > 1 && start(groups.at(-1)) < start(groups.at(-2)) + span(groups.at(-2)) + gap) groups.push(groups.splice(-2).flat())
  }
  const places = []
  for (const group of groups) group.forEach(({ at }, index) => { places[at] = start(group) + index * gap })
  return places
}

/**
 * Sets the `row` of flags: each stands at `x` and spans `from` to `to`. A flag lies above every pole
 * that it crosses and in another row than every flag that it meets, so that no pole runs through a
 * text.
 */
export function rows(flags, most = 8) {
  const under = (flag, other) => other !== flag && other.x > flag.from && other.x < flag.to
  const meets = (flag, other) => other.from < flag.to && other.to > flag.from
  const order = [...flags].sort((a, b) => b.x - a.x)
  for (let turn = 0; turn < most; turn += 1) {
    order.forEach((flag, at) => {
      const below = flags.filter(other => under(flag, other)).map(other => other.row + 1)
      const taken = order.slice(0, at).filter(other => meets(flag, other) && other.row === flag.row).map(other => other.row + 1)
      flag.row = Math.min(most - 1, Math.max(flag.row, ...below, ...taken))
    })
  }
  return flags
}

/** Index of the value nearest to `wanted` in an ascending list. */
export function nearest(values, wanted) {
  let low = 0
  let high = values.length - 1
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (values[middle] < wanted) low = middle
    else high = middle
  }
  return Math.abs((values[low] ?? 0) - wanted) <= Math.abs((values[high] ?? 0) - wanted) ? low : high
}
