/** Regular expressions of operators that run in linear time over any text. */

/** Ways in which one expression may match at one position; beyond it the expression is refused. */
const MAX_WAYS = 1_000
const MAX_LENGTH = 300
const QUANTIFIER = /^\{(\d{1,4})(?:,(\d{1,4}))?\}/

/**
 * Why an expression cannot be used, or null. Every repetition needs a limit, and the product of all choices at one position
 * is limited, so that the time is linear in the length of the text.
 */
export const patternProblem = (pattern: string): string | null => {
  if (pattern.length === 0 || pattern.length > MAX_LENGTH) return `an expression has 1 to ${MAX_LENGTH} characters`
  try {
    new RegExp(pattern, 'gu')
  } catch {
    return 'it is no valid regular expression'
  }
  if (new RegExp(`^(?:${pattern})$`, 'u').test('')) return 'it matches an empty text'
  let ways = 1
  let inClass = false
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at] ?? ''
    if (char === '\\') {
      at++
      if (/[1-9k]/.test(pattern[at] ?? '') && !inClass) return 'references to groups are not allowed'
    } else if (inClass) inClass = char !== ']'
    else if (char === '[') inClass = true
    else if (char === '*' || char === '+') return 'use a limit such as {1,64} instead of * and +'
    else if (char === '|') ways *= 2
    else if (char === '(' && pattern[at + 1] === '?' && pattern[at + 2] !== ':')
      return 'groups such as (?=…) are not allowed'
    else if (char === '?' && pattern[at - 1] !== '(') ways *= 2
    else if (char === '{') {
      const [, least = '', most = ''] = QUANTIFIER.exec(pattern.slice(at)) ?? []
      if (least === '' || pattern.slice(at).startsWith(`{${least},}`)) return 'use a limit such as {1,64}'
      if (pattern[at - 1] === ')') return 'a group cannot be repeated'
      ways *= Math.max(1, Number(most === '' ? least : most) - Number(least) + 1)
    }
    if (ways > MAX_WAYS) return `it can match in more than ${MAX_WAYS} ways; use smaller limits`
  }
  return null
}

/** Bound of the UTF-16 units of a match of an accepted expression: all of its alternatives one after the other. */
export const longestMatch = (pattern: string): number => {
  let all = 0
  for (const [atom, repetition = ''] of pattern.matchAll(ATOM)) {
    const [, least = '1', most = least] = QUANTIFIER.exec(repetition) ?? []
    if (!/^(?:[|()^$]|\(\?:|\\b)$/i.test(atom.slice(0, atom.length - repetition.length)))
      all += units(atom) * Number(most)
  }
  return all + 1
}

/** A character, an escape, a class or a sign, with its repetition. */
const ATOM = /(?:\\(?:[pPu]\{[^}]*\}|x..|u....|c.|.)|\[(?:\\.|[^\]\\])*\]?|\(\?:|.)(\{[\d,]*\}|\?)?/gsu

/** All but letters and digits may be two units. */
const units = (atom: string): number => (/^(?:[\w -]|\\[dw.-])/.test(atom) ? 1 : 2)
