/** The time in an ID of a request: `req_`, then 7 letters whose order is that of time, then random ones. */

const PREFIX = 'req_'
/** 26 to the power of 7 seconds are 254 years. */
const LETTERS = 7
const A = 97

/** Seconds since 1970 as letters. */
export const timeLetters = (ms: number): string => {
  let letters = ''
  let rest = Math.floor(ms / 1_000)
  for (let at = 0; at < LETTERS; at++) {
    letters = String.fromCharCode(A + (rest % 26)) + letters
    rest = Math.floor(rest / 26)
  }
  return letters
}

/** When an ID was made, in ms since 1970 and whole seconds; null: it is none of the gateway. */
export const timeOfRequestId = (id: string): number | null => {
  if (!/^req_[a-z]{20}$/.test(id)) return null
  let seconds = 0
  for (let at = PREFIX.length; at < PREFIX.length + LETTERS; at++) seconds = seconds * 26 + id.charCodeAt(at) - A
  return seconds * 1_000
}
