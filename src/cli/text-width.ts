/** Widths of text in a terminal, in cells: wide characters of East Asia and emoji have two, combining marks none. */

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

const SIMPLE = /^[\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u2010-\u2027\u2190-\u2319]*$/
const NO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}]+$/u
// The classes W and F of Unicode Standard Annex 11, without emoji, which are wide by their property.
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\u4dbf\u4e00-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u
const EMOJI = /\p{Emoji_Presentation}|\ufe0f/u

const widthOfGrapheme = (grapheme: string): number =>
  SIMPLE.test(grapheme)
    ? grapheme.length
    : NO_WIDTH.test(grapheme)
      ? 0
      : WIDE.test(grapheme) || EMOJI.test(grapheme)
        ? 2
        : 1

const piecesOf = (text: string): readonly string[] =>
  SIMPLE.test(text) ? [...text] : [...graphemes.segment(text)].map(({ segment }) => segment)

/** The cells of a text without control characters. */
export const textWidth = (text: string): number =>
  SIMPLE.test(text) ? text.length : piecesOf(text).reduce((sum, piece) => sum + widthOfGrapheme(piece), 0)

/** The text with blanks up to a width. */
export const padded = (text: string, width: number): string => text + ' '.repeat(Math.max(0, width - textWidth(text)))

/** As many of the pieces as fit. */
const within = (pieces: readonly string[], width: number): readonly string[] => {
  let room = width
  const end = pieces.findIndex((piece) => {
    room -= widthOfGrapheme(piece)
    return room < 0
  })
  return end === -1 ? pieces : pieces.slice(0, end)
}

/** Cuts the middle, because names with a common beginning differ at their end. */
export const cut = (text: string, width: number): string => {
  if (textWidth(text) <= width) return text
  const end = Math.floor((width - 1) / 2)
  const pieces = piecesOf(text)
  const last = within(pieces.toReversed(), end).toReversed()
  return `${within(pieces, width - 1 - end).join('')}…${last.join('')}`
}

/** The lines of a text of at most `width` cells, broken between words where there are any. */
export const wrapped = (text: string, width: number): readonly string[] => {
  const lines: string[] = []
  let rest = text
  while (textWidth(rest) > width) {
    const pieces = piecesOf(rest)
    // A line has at least one character, also where a wide one does not fit.
    const line = within(pieces, width).join('') || (pieces[0] ?? '')
    const space = rest[line.length] === ' ' ? line.length : line.lastIndexOf(' ')
    const at = space > 0 ? space : line.length
    lines.push(rest.slice(0, at))
    rest = rest.slice(at).trimStart()
  }
  return [...lines, rest]
}
