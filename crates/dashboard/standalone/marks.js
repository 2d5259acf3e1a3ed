// Marks of lines: with colour and dash they tell twelve lines apart, in grey as well. The program
// draws the same (`line_styles.rs`).

/** Outlines around 0, 0. */
export const MARKS = [
  'M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0Z',
  'M-2.9-2.9h5.8v5.8h-5.8Z',
  'M0-3.8L3.6 2.6H-3.6Z',
  'M0-4.1L4.1 0L0 4.1L-4.1 0Z',
  'M0 3.8L3.6-2.6H-3.6Z',
  'M-3.4-1.2h2.2v-2.2h2.4v2.2h2.2v2.4h-2.2v2.2h-2.4v-2.2h-2.2Z',
]

/** Class and mark of a line by its number. Lines of one colour differ in dash and mark. */
export const lineStyle = number => ({ style: `s${number % 12}`, mark: (number + 3 * Math.floor(number / 6) + Math.floor(number / 12)) % 6, open: Math.floor(number / 6) % 2 === 1 })
