// A page that stands alone, a plan's or a report's: draws its figures with the dashboard's chart,
// turns the theme, and copies commands and values. Without scripts the page shows still pictures.

import { copy, h, setText } from './dom.js'
import { bytes, percent, plain, whole } from './format.js'
import { PlotChart } from './chart_plot.js'
import { lineStyle } from './marks.js'
import { themeName, turnTheme } from './kept.js'

/** Puts a live chart in the place of a still picture. */
function draw(figure) {
  const place = document.getElementById(`drawing-${figure.name}`)
  const named = figure.series.map(one => ({ ...one, ...lineStyle(one.number) }))
  const xs = [...new Set(named.flatMap(one => one.points.map(([x]) => x)))].filter(Number.isFinite).sort((a, b) => a - b)
  const index = new Map(xs.map((x, at) => [x, at]))
  const ys = named.map(one => valuesAt(one.points, index, xs.length))
  const errors = figure.errors.map(([number, x, low, high]) => ({ style: number === null ? 'plain' : lineStyle(number).style, x, low, high }))
  const chart = new PlotChart({ title: figure.title, series: named, errors, levels: figure.levels, height: 340, x: axis(figure.x), y: axis(figure.y) })
  chart.update(xs, ys, figure.marks)
  place.replaceChildren(chart.element)
  place.after(h('div', { class: 'bar-row acts' }, chart.valuesButton(), copyButton(`the values of ${figure.title}`, () => csv(figure))))
  chart.button.disabled = xs.length === 0
}

/** Values of a series at all places of the figure: `undefined` where it has none. */
function valuesAt(points, index, length) {
  const values = Array.from({ length })
  for (const [x, y] of points) if (index.has(x)) values[index.get(x)] = y
  return values
}

/** An axis as the chart takes it; the program has chosen ends and ticks. */
function axis({ label, unit, log, ends, ticks }) {
  const texts = new Map(ticks)
  const format = FORMATS[unit] ?? plain
  return { name: label, format, log, domain: ends, ticks: () => ticks.map(([value]) => value), tickFormat: value => texts.get(value) ?? format(value) }
}

function copyButton(name, text) {
  const act = async () => setText(button, (await copy(text())) ? 'Copied' : 'Not copied')
  const button = h('button', { type: 'button', class: 'plain small copy-button', 'aria-label': `Copy ${name}`, 'aria-live': 'polite', on: { click: act, blur: () => setText(button, 'Copy') } }, 'Copy')
  return button
}

/** Values of a figure as comma-separated text. */
function csv(figure) {
  const cell = value => (/[",\n\r]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value))
  const lines = [['series', `${figure.x.label} [${figure.x.unit}]`, `${figure.y.label} [${figure.y.unit}]`]]
  for (const one of figure.series) for (const [x, y] of one.points) lines.push([one.name, x, y])
  for (const mark of figure.marks) lines.push([mark.label, mark.x, mark.y])
  for (const level of figure.levels) lines.push([level.label, '', level.y])
  return `${lines.map(line => line.map(cell).join(',')).join('\n')}\n`
}

const signed = value => `${value > 0 ? '+' : ''}${plain(value * 100)} points`
const FORMATS = { count: whole, share: percent, bytes, seconds: value => `${plain(value)} s`, milliseconds: value => `${plain(value)} ms`, ratio: plain, points: value => (Number.isFinite(value) ? signed(value) : '–') }

for (const figure of JSON.parse(document.getElementById('shoal-figures').textContent)) draw(figure)
for (const block of document.querySelectorAll('pre.copied')) block.before(copyButton(block.getAttribute('aria-label'), () => block.textContent))
const theme = document.getElementById('shoal-theme')
theme.hidden = false
setText(theme, themeName())
theme.addEventListener('click', () => {
  turnTheme()
  setText(theme, themeName())
})
