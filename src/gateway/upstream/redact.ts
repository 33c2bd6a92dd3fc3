/**
 * Takes a provider's key out of whatever the provider says: some quote it in their errors, whole or cut short, as it is
 * or as a log or a debugger wrote it. Patterns miss keys of unusual form; this one is known.
 */
import type { Failure } from '../../core/failure.ts'
import type { ProviderKey } from '../../core/provider.ts'
import type { Secret } from '../../core/secret.ts'

/** Shorter ones are placeholders for servers that ask for no key, and would be found in ordinary words. */
const SHORTEST = 5
/** A piece so long of a key, beyond the few characters at its ends by which people tell keys apart, is the key. */
const RUN = 8
const ENDS = 4
const MASK = '[key]'
/** Small letters between other signs, no more than a word has. */
const WORD = /(?<![A-Za-z0-9])[a-z]{1,16}(?![A-Za-z0-9])/g

export const redactKey = (failure: Failure, { secret }: ProviderKey): Failure => {
  const value = secret?.reveal() ?? ''
  if (!secret || value.length < SHORTEST) return failure
  const clean = (text: string): string => withoutRuns(text.replaceAll(value, MASK), runsOf(secret))
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

/** Made once for each key: a storm of errors is the wrong time to make them for every one. */
const known = new WeakMap<Secret, ReadonlySet<string>>()

/** Every run of a key, in each form in which text travels; in small letters, as some write everything so. */
const runsOf = (secret: Secret): ReadonlySet<string> => {
  const made = known.get(secret)
  if (made) return made
  const value = secret.reveal()
  const runs = new Set<string>()
  const hidden = value.slice(ENDS, -ENDS)
  // A short one may be made of words, parts of which stand in any error; and a long one may have some within.
  if (hidden.length >= 2 * RUN)
    for (const form of [hidden, ...encoded(value)]) {
      const searched = small(form)
      const drawn = form.replace(WORD, (word) => '-'.repeat(word.length))
      for (let at = 0; at + RUN <= form.length; at++)
        if (/[A-Za-z0-9]/.test(drawn.slice(at, at + RUN))) runs.add(searched.slice(at, at + RUN))
    }
  known.set(secret, runs)
  return runs
}

const encoded = (value: string): readonly string[] => {
  // A header cannot hold others, and the encodings below would stumble over them.
  if (!/^[\x20-\xff]*$/.test(value)) return []
  const hex = Array.from(value.slice(ENDS, -ENDS), (char) => char.charCodeAt(0).toString(16).padStart(2, '0'))
  // It may begin at any of the three places of a group of base64, behind `Bearer ` for one; groups shared with what
  // stands before and behind it are left out.
  const shifted = ['', '\0', '\0\0'].map((before) => btoa(before + value).slice(before === '' ? 0 : 4, -4))
  return [
    encodeURIComponent(value.slice(ENDS, -ENDS)),
    hex.join(''),
    ...shifted,
    ...shifted.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
  ]
}

/** Latin letters only: of others some change their length, and then places would differ. */
const small = (text: string): string => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())

/** The text with every stretch that is covered by such runs replaced. Linear in its length. */
const withoutRuns = (text: string, runs: ReadonlySet<string>): string => {
  if (runs.size === 0 || text.length < RUN) return text
  const searched = small(text)
  let out = ''
  let kept = 0
  let end = 0
  for (let at = 0; at + RUN <= searched.length; at++) {
    if (!runs.has(searched.slice(at, at + RUN))) continue
    if (at > end || end === 0) out += text.slice(kept, at) + MASK
    end = at + RUN
    kept = end
  }
  return kept === 0 ? text : out + text.slice(kept)
}
