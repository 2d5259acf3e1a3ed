// Numbers as people read them: three digits and a unit, `–` where nothing is known.

const NONE = '–'
const known = value => typeof value === 'number' && Number.isFinite(value)

/** A whole number with thousands: `12,345`. */
export const whole = value => (known(value) ? WHOLE.format(value) : NONE)

/** A count in three digits: `1.23 M`. */
export const count = value => scaled(value, ['', ' k', ' M', ' G', ' T', ' P'], 1000)

/** Bytes in units of 1,024: `1.5 GiB`. */
export const bytes = value => scaled(value, [' B', ' KiB', ' MiB', ' GiB', ' TiB', ' PiB'], 1024)

/** Events a second. */
export const rate = value => (known(value) ? `${count(value)}/s` : NONE)

/** Bytes a second. */
export const byteRate = value => (known(value) ? `${bytes(value)}/s` : NONE)

/** A share of 1 in percent: `93.4%`. */
export function percent(value) {
  if (!known(value)) return NONE
  const share = value * 100
  if (share === 0 || share === 100) return `${share}%`
  return `${share.toFixed(share > 99.9 || share < 1 ? 2 : 1)}%`
}

/** A time in microseconds: `85 µs`, `1.2 ms`, `3.4 s`. */
export function micros(value) {
  if (!known(value)) return NONE
  if (value < 1000) return `${Math.round(value)} µs`
  return value < 1e6 ? `${three(value / 1000)} ms` : span(value / 1e6)
}

/** A time in milliseconds. */
export const millis = value => (known(value) ? micros(value * 1000) : NONE)

/** Seconds as the two largest units: `3 d 4 h`. */
export function span(seconds) {
  if (!known(seconds)) return NONE
  if (seconds < 60) return `${three(seconds)} s`
  const units = [[86400 * 365, 'y'], [86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']]
  const at = units.findIndex(([size]) => seconds >= size)
  const [size, name] = units[at]
  const [small, smallName] = units[at + 1] ?? [1, '']
  const rest = Math.floor((seconds % size) / small)
  return `${Math.floor(seconds / size)} ${name}${rest > 0 && smallName ? ` ${rest} ${smallName}` : ''}`
}

/** A number with at most three digits. */
export function plain(value) {
  return known(value) ? three(value) : NONE
}

/** Time of day of a Unix time in milliseconds. */
export const clock = ms => (known(ms) ? CLOCK.format(ms) : NONE)

/** Day and time of a Unix time in milliseconds. */
export const moment = ms => (known(ms) ? MOMENT.format(ms) : NONE)

/** Hours and minutes. */
export const hours = ms => (known(ms) ? HOURS.format(ms) : NONE)

/** Splits `1.5 GiB/s` into its number and its unit, which a tile draws smaller. */
export function parted(text) {
  const match = /^([\d.,–-]+)\s?(.*)$/u.exec(text)
  return match ? [match[1], match[2]] : [text, '']
}

/** The median and 99th percentile of counts in buckets, as the bucket's upper edge. */
export function quantile(counts, edges, share) {
  const total = counts.reduce((sum, value) => sum + value, 0)
  let left = total * share
  const at = counts.findIndex(value => (left -= value) <= 0)
  return total > 0 ? edges[Math.min(at, edges.length - 1)] : undefined
}

function scaled(value, units, step) {
  if (!known(value)) return NONE
  let size = Math.abs(value)
  let unit = 0
  while (size >= 999.5 && unit < units.length - 1) {
    size /= step
    unit += 1
  }
  return `${value < 0 ? '-' : ''}${three(size)}${units[unit]}`
}

function three(size) {
  if (size >= 99.95 || size === 0) return WHOLE.format(Math.round(size))
  const digits = size >= 9.995 ? 1 : 2
  return size < 0.01 ? size.toPrecision(1) : String(Number(size.toFixed(digits)))
}

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const HOURS = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const MOMENT = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' })
