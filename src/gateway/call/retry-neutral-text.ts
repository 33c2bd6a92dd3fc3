import { RETRY_WORDS } from '../../protocols/errors/openai-error.ts'

/**
 * Several clients decide whether to come back by searching the raw text of an error for words and numbers (`RETRY_WORDS`).
 * An error that must not be retried is therefore written without them: a letter of each is put as its JSON escape, so
 * that whoever parses the body reads exactly what was meant, and whoever searches it finds nothing.
 */
export const retryNeutral = (json: string, retryable: boolean): string =>
  retryable || !RETRY_WORDS.test(json) ? json : json.replace(STRINGS, quietString)

/** Only inside strings: numbers and structure have no escapes. */
const STRINGS = /"(?:[^"\\]|\\.)*"/gs

/** Existing escapes are stepped over, so that no match begins inside one. */
const ESCAPES_AND_ALARMS = new RegExp(String.raw`\\u[0-9a-f]{4}|\\.|${RETRY_WORDS.source}`, 'gi')

const quietString = (string: string): string => {
  if (!RETRY_WORDS.test(string)) return string
  // The second letter: a digit escaped at the front would read as one number with those behind it.
  const quieter = string.replace(ESCAPES_AND_ALARMS, (found) =>
    found.startsWith('\\') ? found : found.slice(0, 1) + escaped(found.slice(1, 2)) + found.slice(2),
  )
  if (!RETRY_WORDS.test(quieter)) return quieter
  // A match that spans an escape (a control character before digits): then every letter is put as one.
  return JSON.stringify(JSON.parse(string)).replace(/\\u[0-9a-f]{4}|\\.|[0-9a-z]/gi, (found) =>
    found.startsWith('\\') ? found : escaped(found),
  )
}

const escaped = (letter: string): string => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
