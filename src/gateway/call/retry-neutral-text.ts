import { RETRY_TRIGGERS } from '../../core/retry-triggers.ts'

/**
 * Some clients decide whether to retry by searching the raw text of an error for words and numbers (`RETRY_TRIGGERS`).
 * In an error that must not be retried, one character of each match is replaced by its JSON escape. Parsers read the same
 * text; text searches find no match.
 */
export const retryNeutral = (json: string, retryable: boolean): string =>
  retryable || !RETRY_TRIGGERS.test(json) ? json : json.replace(STRINGS, neutralString)

/** JSON strings. Numbers and structure cannot be escaped. */
const STRINGS = /"(?:[^"\\]|\\.)*"/gs

/** Existing escapes match first, so that no retry word starts inside one. */
const ESCAPES_AND_RETRY_WORDS = new RegExp(String.raw`\\u[0-9a-f]{4}|\\.|${RETRY_TRIGGERS.source}`, 'gi')

const neutralString = (string: string): string => {
  if (!RETRY_TRIGGERS.test(string)) return string
  // Escape the second character: an escape ending in digits, followed by the other digits, could match again.
  const neutral = string.replace(ESCAPES_AND_RETRY_WORDS, (found) =>
    found.startsWith('\\') ? found : found.slice(0, 1) + escaped(found.slice(1, 2)) + found.slice(2),
  )
  if (!RETRY_TRIGGERS.test(neutral)) return neutral
  // The match spans an escape, such as a control character before digits. Escape every character.
  return JSON.stringify(JSON.parse(string)).replace(/\\u[0-9a-f]{4}|\\.|[0-9a-z]/gi, (found) =>
    found.startsWith('\\') ? found : escaped(found),
  )
}

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
