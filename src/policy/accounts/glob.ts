/** Matches names against globs with `*`. Names of models are compared in lower case, because vendors accept them in any case. */

/** A glob, split at each `*`. */
export type Glob = { readonly first: string; readonly middle: readonly string[]; readonly last: string | null }

/** Prepares a glob. `*` matches any text, also an empty one and one with slashes; every other character matches itself. */
export const parseGlob = (text: string): Glob => exactGlob(text.toLowerCase())

/** The same for names in which case matters, such as claims of tokens. */
export const exactGlob = (text: string): Glob => {
  const [first = '', ...rest] = text.split('*')
  return { first, middle: rest.slice(0, -1), last: rest.at(-1) ?? null }
}

/**
 * Whether a glob matches a whole name, in lower case for `parseGlob`. Takes the first occurrence of each part and never goes back, so the
 * name is read once.
 */
export const matchesGlob = ({ first, middle, last }: Glob, name: string): boolean => {
  if (last === null) return name === first
  if (!name.startsWith(first)) return false
  let at = first.length
  for (const part of middle) {
    const found = name.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return name.length - last.length >= at && name.endsWith(last)
}
