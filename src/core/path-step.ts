/**
 * Encodes a name as one segment of a URL path. A lone surrogate becomes U+FFFD. `.` and `..`, which URL parsers resolve
 * even when escaped, become names that do not exist.
 */
export const pathStep = (name: string): string =>
  encodeURIComponent(name.toWellFormed()).replace(/^\.{1,2}$/, (dots) => dots.replaceAll('.', '%252E'))
