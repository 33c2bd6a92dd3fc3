/** Anchors of headings, as the forge makes them, so that a link works on both. */

const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')

/** Returns a function that gives each text its anchor; equal ones get `-1`, `-2` … */
export const anchors = (): ((text: string) => string) => {
  const counts = new Map<string, number>()
  return (text) => {
    const anchor = anchorOf(text)
    const count = counts.get(anchor) ?? 0
    counts.set(anchor, count + 1)
    return count === 0 ? anchor : `${anchor}-${count}`
  }
}
