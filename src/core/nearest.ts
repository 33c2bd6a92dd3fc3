/** Finds similar names for "did you mean …?" messages. */

/** Maximum length compared: the cost is the product of both lengths. */
const LONGEST = 64

/** Edit distance with transpositions of adjacent characters (optimal string alignment). */
export const distance = (a: string, b: string): number => {
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const next = [row]
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1]
      const cost = (list: readonly number[], at: number) => list[at] ?? 0
      let least = Math.min(cost(next, column - 1) + 1, cost(last, column) + 1, cost(last, column - 1) + (same ? 0 : 1))
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1])
        least = Math.min(least, cost(before, column - 2) + 1)
      next.push(least)
    }
    before = last
    last = next
  }
  return last[b.length] ?? 0
}

/** Similar names, nearest first, at most `most`. Ignores case and the difference between `_` and `-`. */
export const nearest = (written: string, names: Iterable<string>, most = 1): readonly string[] => {
  const plain = (name: string) => name.toLowerCase().replaceAll('_', '-')
  const wanted = plain(written.slice(0, LONGEST))
  const allowed = Math.max(1, Math.floor(wanted.length / 3))
  const found: { name: string; far: number }[] = []
  for (const name of names) {
    if (Math.abs(name.length - wanted.length) > allowed) continue
    const far = distance(wanted, plain(name.slice(0, LONGEST)))
    if (far <= allowed) found.push({ name, far })
  }
  return found
    .sort((a, b) => a.far - b.far || (a.name < b.name ? -1 : 1))
    .slice(0, most)
    .map(({ name }) => name)
}
