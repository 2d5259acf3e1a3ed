// Choices that the browser keeps: the theme, and whether single keys are shortcuts.

/** What is kept under a name, if anything. */
export function kept(name) {
  try {
    return localStorage.getItem(name)
  } catch {
    return null
  }
}

/** Keeps a value under a name. */
export function keep(name, value) {
  try {
    localStorage.setItem(name, value)
  } catch {
    // Without storage the choice holds until the page is closed.
  }
}

/** Goes on to the next theme: the system's, dark, light. */
export function turnTheme() {
  const next = { system: 'dark', dark: 'light', light: 'system' }[theme()]
  if (next === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = next
  keep('shoal.theme', next)
}

/** The theme in words. */
export const themeName = () => ({ system: 'Theme: system', dark: 'Theme: dark', light: 'Theme: light' })[theme()]

const theme = () => document.documentElement.dataset.theme ?? 'system'
