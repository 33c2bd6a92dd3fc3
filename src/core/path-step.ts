/**
 * A name as one step of a URL's path. Half a surrogate pair, which cannot be encoded, becomes U+FFFD; `.` and `..`, which
 * every reader of URLs takes for a way elsewhere, escaped too, become names that nobody has.
 */
export const pathStep = (name: string): string =>
  encodeURIComponent(name.toWellFormed()).replace(/^\.{1,2}$/, (dots) => dots.replaceAll('.', '%252E'))
