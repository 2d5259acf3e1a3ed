// Sets the theme before the first paint; a module would come too late. No setting means the
// system's theme.
'use strict'
try {
  const chosen = localStorage.getItem('shoal.theme')
  if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen
} catch {
  // Without storage the system's theme holds.
}
