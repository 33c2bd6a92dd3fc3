/** Help texts in the width of the terminal. */

/** The most characters of a line, in wider terminals too. */
export const HELP_WIDTH = 100
/** The fewest: narrower lines would break the names of options. */
const LEAST = 48

/** Characters of a line of help. */
export const helpWidth = (terminal: number | null): number =>
  Math.min(HELP_WIDTH, Math.max(LEAST, terminal ?? HELP_WIDTH))

/** Breaks a text between words. `end`: what ends a line that is continued. */
const wrapped = (line: string, width: number, { indent, end }: { readonly indent: string; readonly end: string }) => {
  const lines: string[] = []
  let current = ''
  for (const word of line.split(' ')) {
    const longer = current === '' ? word : `${current} ${word}`
    if (current.trim() !== '' && longer.length + end.length > width) {
      lines.push(current + end)
      current = indent + word
    } else current = longer
  }
  return [...lines, current]
}

/** An indented line and an example stay lines of their own. An example is continued with a backslash, to be copied. */
const isOwnLine = (line: string): boolean => /^(?:\s|Example: )/.test(line)

const paragraph = (text: string, width: number): string => {
  const lines: string[] = []
  for (const line of text.split('\n')) {
    const last = lines.at(-1)
    if (last !== undefined && !isOwnLine(last) && !isOwnLine(line) && last !== '')
      lines[lines.length - 1] = `${last} ${line}`
    else lines.push(line)
  }
  return lines
    .flatMap((line) => {
      const style = isOwnLine(line) ? { indent: '    ', end: ' \\' } : { indent: '', end: '' }
      return line.length <= width ? [line] : wrapped(line, width, style)
    })
    .join('\n')
}

/** Fills the paragraphs of a text below the options. Help of the options is filled where it is made. */
export const filled = (text: string, width: number): string =>
  text.startsWith('Usage: ')
    ? text
    : text
        .split('\n\n')
        .map((part) => paragraph(part, width))
        .join('\n\n')
