/**
 * Removes a provider's API key from its error messages. Some providers quote it, in full or truncated, in any encoding.
 * The search is for the known key, because patterns miss keys of unusual form.
 */
import type { Failure } from '../../core/failure.ts'
import type { ProviderKey } from '../../core/provider.ts'
import type { Secret } from '../../core/secret.ts'

/** Minimum length of a key. Shorter ones are placeholders for servers without authentication, and match ordinary words. */
const MIN_LENGTH = 5
/** Length of a part of a key that is redacted. The first and last `ENDS` characters identify a key and may stay. */
const RUN = 8
const ENDS = 4
const MASK = '[key]'
/** Lowercase letters between other characters, as many as a word may have. */
const WORD = /(?<![A-Za-z0-9])[a-z]{1,16}(?![A-Za-z0-9])/g

/** The failure with the key removed from its message, parameter and upstream details. */
export const redactKey = (failure: Failure, { secret }: ProviderKey): Failure => {
  const value = secret?.reveal() ?? ''
  if (!secret || value.length < MIN_LENGTH) return failure
  return cleaned(failure, (text) => withoutRuns(text.replaceAll(value, MASK), runsOf(secret)))
}

/** The failure without these secrets as a whole. Short ones match ordinary words and stay. */
export const redactSecrets = (failure: Failure, secrets: readonly Secret[]): Failure =>
  secrets.reduce((before, secret) => {
    const value = secret.reveal()
    return value.length < RUN ? before : cleaned(before, (text) => text.replaceAll(value, MASK))
  }, failure)

const cleaned = (failure: Failure, clean: (text: string) => string): Failure => {
  const { upstream, param } = failure
  return {
    ...failure,
    message: clean(failure.message),
    ...(param !== undefined && { param: clean(param) }),
    ...(upstream && {
      upstream: Object.fromEntries(Object.entries(upstream).map(([name, text]) => [name, clean(text)])),
    }),
  }
}

/** Computed once for each key, because errors may come in bursts. */
const runsBySecret = new WeakMap<Secret, ReadonlySet<string>>()

/** All runs of a key in each common encoding, in lowercase, because some providers change the case. */
const runsOf = (secret: Secret): ReadonlySet<string> => {
  const cached = runsBySecret.get(secret)
  if (cached) return cached
  const value = secret.reveal()
  const runs = new Set<string>()
  const hidden = value.slice(ENDS, -ENDS)
  // A short key may consist of ordinary words. Words within a long key are excluded below.
  if (hidden.length >= 2 * RUN)
    for (const form of [hidden, ...encoded(value)]) {
      const lowered = lowercase(form)
      const masked = form.replace(WORD, (word) => '-'.repeat(word.length))
      for (let at = 0; at + RUN <= form.length; at++)
        if (/[A-Za-z0-9]/.test(masked.slice(at, at + RUN))) runs.add(lowered.slice(at, at + RUN))
    }
  runsBySecret.set(secret, runs)
  return runs
}

const encoded = (value: string): readonly string[] => {
  // Header values cannot contain other characters, and `btoa` throws on them.
  if (!/^[\x20-\xff]*$/.test(value)) return []
  const hex = Array.from(value.slice(ENDS, -ENDS), (char) => char.charCodeAt(0).toString(16).padStart(2, '0'))
  // In base64 the key may start at any of three offsets in a group, for example after `Bearer `. Groups shared with the
  // surrounding text are excluded.
  const shifted = ['', '\0', '\0\0'].map((before) => btoa(before + value).slice(before === '' ? 0 : 4, -4))
  return [
    encodeURIComponent(value.slice(ENDS, -ENDS)),
    hex.join(''),
    ...shifted,
    ...shifted.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
  ]
}

/** Lowercases ASCII letters only, because others may change in length and shift positions. */
const lowercase = (text: string): string => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())

/** Replaces each stretch of text covered by runs. Linear in the length of the text. */
const withoutRuns = (text: string, runs: ReadonlySet<string>): string => {
  if (runs.size === 0 || text.length < RUN) return text
  const lowered = lowercase(text)
  let out = ''
  let kept = 0
  let end = 0
  for (let at = 0; at + RUN <= lowered.length; at++) {
    if (!runs.has(lowered.slice(at, at + RUN))) continue
    if (at > end || end === 0) out += text.slice(kept, at) + MASK
    end = at + RUN
    kept = end
  }
  return kept === 0 ? text : out + text.slice(kept)
}
