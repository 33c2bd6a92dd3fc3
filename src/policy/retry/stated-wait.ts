/**
 * The wait that a provider states in the text of an error. The text is untrusted: only its beginning is read, every
 * repetition in a pattern is bounded, and a statement that the client's own request contains is ignored.
 */
import { type Failure, rowOf } from '../../core/failure.ts'

const HOUR = 3_600_000
/** Characters of a message that are read. Gemini lists exhausted quotas (150 characters each) before the wait. */
const MAX_LENGTH = 2_000

/** A wait in ms, and the words that state it. */
export type StatedWait = { readonly wait: number; readonly words: string }

/**
 * The failure with the wait that its text states, at most an hour: of rate limits and used-up quotas without a known wait.
 * `request`: the text that was sent to the provider. `clock`: ms since 1970, and the offset of times without a zone (`+08:00`).
 */
export const withStatedWait = (failure: Failure, request: () => string, clock: Clock): Failure => {
  const { key } = rowOf(failure)
  if (failure.retryAfter !== undefined || (key !== 'rate_limited' && key !== 'quota_exhausted')) return failure
  const stated = statedWait(failure.upstream?.message ?? '', clock)
  if (!stated || request().includes(stated.words)) return failure
  return { ...failure, retryAfter: Math.min(stated.wait, HOUR) }
}

/** Now in ms since 1970, and the offset from UTC of times that state no zone, as `+08:00`. Absent: none. */
export type Clock = { readonly now: number; readonly offset?: string | undefined }

/** The wait that a message states as a duration or as a time in the future. */
export const statedWait = (message: string, { now, offset = 'Z' }: Clock): StatedWait | undefined => {
  const text = withoutQuotes(message.slice(0, MAX_LENGTH))
  const duration = DURATION.exec(text)
  if (duration) return { wait: durationOf(duration[1] ?? ''), words: duration[0] }
  const time = TIME.exec(text)
  const found = time ?? CHINESE_TIME.exec(text)
  const wait = found ? timeOf(found, time ? offset : CHINA) - now : Number.NaN
  return found && wait > 0 ? { wait, words: found[0] } : undefined
}

/** Quoted text may be the client's. An error of another gateway that is quoted as JSON is read too. */
const withoutQuotes = (text: string): string =>
  /["']message["']/.test(text) ? text : text.replace(/"[^"]*"|`[^`]*`|“[^”]*”/g, '…')

/** Words before a time at which a limit ends. */
const UNTIL = '\\b(?:try(?:ing)? again|retry(?:ing)?|resets?(?: again| time)?|wait|available(?: again)?|regain access)'

/** `25m14.4s`, `3 days`, `8 hours 24 minutes`, `an hour`. */
const AMOUNT =
  '(?:\\d{1,9}(?:\\.\\d{1,12})? ?|an? )(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)(?![a-z])'
const DURATION = new RegExp(
  `${UNTIL}:? ?(?:in|after|for|within)?:? ?(?:about |approximately |another |at least )?(${AMOUNT}(?:,? ?(?:and )?${AMOUNT}){0,4})`,
  'i',
)

/** A date with an optional time and zone (Z, UTC, +08:00), or a Unix time in s or ms. */
const DATE =
  '(?:(\\d{4}-\\d{2}-\\d{2})(?:(?:T| at | )(\\d{2}:\\d{2}(?::\\d{2})?)(?:\\.\\d{1,9})?)?(?: ?(?:(Z|UTC|GMT)|([+-]\\d{2}):?(\\d{2})))?|(\\d{10}|\\d{13})(?!\\d))'
const TIME = new RegExp(`${UNTIL}:? ?(?:at|on|until|after)?:? ?${DATE}`, 'i')
/**
 * `您的限额将在 2026-08-24 00:09:21 重置`: Zhipu (NanmiCoder/cc-haha#1266, QuantumNous/new-api#3451). Its times are those of China
 * (can1357/oh-my-pi#11014).
 */
const CHINESE_TIME = new RegExp(`将[在于] ?${DATE} ?(?:重置|恢复|刷新)`)

const CHINA = '+08:00'

const UNITS: ReadonlyMap<string, number> = new Map([
  ['ms', 1],
  ['mi', 60_000],
  ['m', 60_000],
  ['s', 1_000],
  ['h', HOUR],
  ['d', 24 * HOUR],
  ['w', 7 * 24 * HOUR],
])

const durationOf = (text: string): number => {
  let total = 0
  for (const [, figure = '', unit = ''] of text
    .toLowerCase()
    .matchAll(/(\d{1,9}(?:\.\d{1,12})?|\ban?(?= )) ?([a-z]{1,12})/g)) {
    const count = figure.startsWith('a') ? 1 : Number(figure)
    const ms = unit.startsWith('milli') ? 1 : (UNITS.get(unit.slice(0, 2)) ?? UNITS.get(unit.charAt(0)) ?? 0)
    total += count * ms
  }
  return total
}

const timeOf = ([, day, clock = '00:00', zone, hours, minutes, unix]: RegExpExecArray, offset: string): number => {
  if (unix !== undefined) return unix.length === 10 ? Number(unix) * 1_000 : Number(unix)
  const stated = zone === undefined ? hours && `${hours}:${minutes}` : 'Z'
  return Date.parse(`${day}T${clock}${stated ?? offset}`)
}
