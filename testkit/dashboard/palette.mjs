// Writes a truecolour PNG again with at most 256 colours: a third of the bytes for a page of flat
// colours. Reads what Chromium writes: 8 bits a channel, RGB or RGBA, not interlaced.

import zlib, { deflateSync, inflateSync } from 'node:zlib'

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10])

/** The same picture with the largest palette that keeps it within `most` bytes. */
export function reduced(png, most) {
  const picture = decoded(png)
  let written
  for (const size of [256, 96, 48, 24]) {
    written = encoded(picture, size)
    if (written.length <= most) break
  }
  return written
}

function encoded({ width, height, pixels }, size) {
  const counts = new Map()
  for (const colour of pixels) counts.set(colour, (counts.get(colour) ?? 0) + 1)
  const palette = chosen(counts, size)
  const index = new Map(palette.map((colour, at) => [colour, at]))
  const lines = Buffer.alloc((width + 1) * height)
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const colour = pixels[y * width + x]
      if (!index.has(colour)) index.set(colour, index.get(nearestOf(palette, colour)))
      lines[y * (width + 1) + 1 + x] = index.get(colour)
    }
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 3, 0, 0, 0], 8)
  const colours = Buffer.from(palette.flatMap(channels))
  return Buffer.concat([SIGNATURE, chunk('IHDR', head), chunk('PLTE', colours), chunk('IDAT', deflateSync(lines, { level: 9 })), chunk('IEND', Buffer.alloc(0))])
}

/** Frequent colours first; a colour close to one that is taken gives its place to another. */
function chosen(counts, size) {
  const order = [...counts.entries()].sort((a, b) => b[1] - a[1]).map(([colour]) => colour)
  const palette = []
  for (const least of [300, 48, 0]) {
    for (const colour of order) {
      if (palette.length >= size) return palette
      if (!palette.some(taken => distance(taken, colour) <= least)) palette.push(colour)
    }
  }
  return palette
}

function nearestOf(palette, colour) {
  return palette.reduce((best, one) => (distance(one, colour) < distance(best, colour) ? one : best))
}

function distance(a, b) {
  const [red, green, blue] = channels(a).map((value, at) => value - channels(b)[at])
  return red * red + green * green + blue * blue
}

const channels = colour => [colour >> 16, (colour >> 8) & 255, colour & 255]

function decoded(png) {
  let at = SIGNATURE.length
  const data = []
  let head
  while (at < png.length) {
    const length = png.readUInt32BE(at)
    const name = png.toString('latin1', at + 4, at + 8)
    const body = png.subarray(at + 8, at + 8 + length)
    if (name === 'IHDR') head = body
    if (name === 'IDAT') data.push(body)
    at += length + 12
  }
  const [width, height, depth, kind] = [head.readUInt32BE(0), head.readUInt32BE(4), head[8], head[9]]
  if (depth !== 8 || ![2, 6].includes(kind)) throw new Error(`PNG of kind ${kind} with ${depth} bits`)
  return { width, height, pixels: unfiltered(inflateSync(Buffer.concat(data)), width, height, kind === 6 ? 4 : 3) }
}

/** Undoes the five filters of PNG (section 9 of its specification). */
function unfiltered(bytes, width, height, size) {
  const row = width * size
  const pixels = new Uint32Array(width * height)
  let above = new Uint8Array(row)
  for (let y = 0; y < height; y += 1) {
    const start = y * (row + 1)
    const line = Uint8Array.from(bytes.subarray(start + 1, start + 1 + row))
    for (let at = 0; at < row; at += 1) line[at] += predicted(bytes[start], at >= size ? line[at - size] : 0, above[at], at >= size ? above[at - size] : 0)
    for (let x = 0; x < width; x += 1) pixels[y * width + x] = (line[x * size] << 16) | (line[x * size + 1] << 8) | line[x * size + 2]
    above = line
  }
  return pixels
}

function predicted(filter, left, up, corner) {
  if (filter === 1) return left
  if (filter === 2) return up
  if (filter === 3) return (left + up) >> 1
  if (filter !== 4) return 0
  const guess = left + up - corner
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)]
  return a <= b && a <= c ? left : b <= c ? up : corner
}

function chunk(name, body) {
  const named = Buffer.concat([Buffer.from(name, 'latin1'), body])
  const framed = Buffer.alloc(named.length + 8)
  framed.writeUInt32BE(body.length, 0)
  named.copy(framed, 4)
  framed.writeUInt32BE(crc32(named), named.length + 4)
  return framed
}

/** Node has it since 20.15; older ones count by hand. */
function crc32(bytes) {
  if (zlib.crc32) return zlib.crc32(bytes)
  let sum = ~0
  for (const byte of bytes) {
    sum ^= byte
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xEDB88320 : 0)
  }
  return ~sum >>> 0
}
