const QUOTED = /^(["'])(.*)\1$/s

/** The content of a value in one pair of marks; null: it is not in marks, or contains further ones. */
const contentOf = (value: string): string | null => {
  const [, mark, content] = QUOTED.exec(value.trim()) ?? []
  return mark === undefined || content === undefined || content.includes(mark) ? null : content
}

/** Removes one pair of quotation marks around a value, or around each entry of a list: `"a", "b"` is a and b. */
export const withoutQuotes = (value: string): string => {
  // Most values contain none.
  if (!/["']/.test(value)) return value
  const content = contentOf(value)
  if (content !== null) return content
  const entries = value.split(',').map(contentOf)
  return entries.includes(null) ? value : entries.join(',')
}
