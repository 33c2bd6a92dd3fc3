/**
 * Encodes a name as one segment of a URL path. A lone surrogate becomes U+FFFD. `.` and `..` are escaped twice
 * (`%252E`), because URL parsers resolve them even when escaped once. The upstream then reports an unknown name.
 */
export const pathSegment = (name: string): string =>
  encodeURIComponent(name.toWellFormed()).replace(/^\.{1,2}$/, (dots) => dots.replaceAll('.', '%252E'))
