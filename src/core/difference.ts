/** The difference of two lists of texts: the lines of files, or the words of answers. */

export type DifferencePart = { readonly is: 'same' | 'removed' | 'added'; readonly text: string }

/** Changed entries above which the middle is replaced as a whole: the table of lengths has the product of both. */
const MOST = 2_000

type TextList = readonly string[]

/** The entries of both in order: without the added ones they are the first list, without the removed ones the second. */
export const difference = (before: TextList, after: TextList): readonly DifferencePart[] => {
  const most = Math.min(before.length, after.length)
  let head = 0
  while (head < most && before[head] === after[head]) head++
  let tail = 0
  while (tail < most - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++
  const same = (texts: TextList) => texts.map((text): DifferencePart => ({ is: 'same', text }))
  return [
    ...same(before.slice(0, head)),
    ...middleOf(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
    ...same(before.slice(before.length - tail)),
  ]
}

/** The parts by the longest common subsequence. */
const middleOf = (before: TextList, after: TextList): readonly DifferencePart[] => {
  const removed = (text: string): DifferencePart => ({ is: 'removed', text })
  const added = (text: string): DifferencePart => ({ is: 'added', text })
  if (before.length > MOST || after.length > MOST) return [...before.map(removed), ...after.map(added)]
  const width = after.length + 1
  /** The most equal entries of the rests from row and column, in order. */
  const lengths = new Uint16Array((before.length + 1) * width)
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0
  for (let row = before.length - 1; row >= 0; row--)
    for (let column = after.length - 1; column >= 0; column--)
      lengths[row * width + column] =
        before[row] === after[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1))
  const parts: DifferencePart[] = []
  let [row, column] = [0, 0]
  while (row < before.length || column < after.length) {
    const [old, now] = [before[row], after[column]]
    if (old !== undefined && old === now) {
      parts.push({ is: 'same', text: old })
      row++
      column++
    } else if (old !== undefined && (now === undefined || at(row + 1, column) >= at(row, column + 1))) {
      parts.push(removed(old))
      row++
    } else {
      parts.push(added(now ?? ''))
      column++
    }
  }
  return parts
}

/** The parts around changes; null stands for parts that are left out. */
export const aroundChanges = (parts: readonly DifferencePart[], context = 2): readonly (DifferencePart | null)[] => {
  const isNear = parts.map((_, at) =>
    parts.slice(Math.max(0, at - context), at + context + 1).some(({ is }) => is !== 'same'),
  )
  return parts.flatMap((part, at) => (isNear[at] ? [part] : isNear[at - 1] || at === 0 ? [null] : []))
}

const SIGNS = { same: ' ', removed: '-', added: '+' } as const

const linesOf = (text: string): TextList => (text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/))

/** The changed lines with a sign, and two lines of context; `…` stands for lines that are left out. Empty: no change. */
export const signedLines = (before: string, after: string): readonly string[] => {
  const parts = difference(linesOf(before), linesOf(after))
  if (parts.every(({ is }) => is === 'same')) return []
  return aroundChanges(parts).map((part) => (part === null ? '…' : `${SIGNS[part.is]} ${part.text}`))
}

const wordsOf = (text: string): TextList => text.match(/\s+|\S+/g) ?? []

/** The difference of two texts by words; neighbours of the same kind are one part. */
export const wordDifference = (before: string, after: string): readonly DifferencePart[] => {
  const parts: DifferencePart[] = []
  for (const { is, text } of difference(wordsOf(before), wordsOf(after))) {
    const last = parts.at(-1)
    if (last?.is === is) parts[parts.length - 1] = { is, text: last.text + text }
    else parts.push({ is, text })
  }
  return parts
}
