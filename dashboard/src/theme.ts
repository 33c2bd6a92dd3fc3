/** Runs before the first paint, so that a chosen theme does not flash. A classic script: no imports. */
try {
  const { theme, density } = localStorage
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
  if (density === 'compact') document.documentElement.dataset.density = density
} catch {
  // Storage is blocked: the system's theme applies.
}
