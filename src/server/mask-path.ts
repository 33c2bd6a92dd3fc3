/** Masks keys in request paths: clients with a wrong base URL put keys into paths, and paths are logged. */

const MASK = '[key]'

/** Prefixes of the keys that vendors and this gateway issue, before at least 12 characters of a key. */
const KNOWN_PREFIX =
  /^(?:sk|pk|rk|gsk|csk|xai|nvapi|pplx|hf|fw|r8|tgp|hg[ka]?|gh[pousr]|glpat)[-_][-_A-Za-z0-9.+=]{12,}$|^(?:AIza|AKIA|ASIA|eyJ)[-_A-Za-z0-9.+=]{12,}$/

/** Whether a text has the form of a key that a vendor or this gateway issues. */
export const isKeyLike = (text: string): boolean => KNOWN_PREFIX.test(text)

/** Random text: 24 or more characters, letters and digits mixed. IDs and model names match too, so only unknown paths are tested. */
const RANDOM = /^(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[-_A-Za-z0-9.~+=]{24,}$/

/** A further segment of a base64 key with a slash: it has capitals, digits or signs. Not `chat`, `v1`, `v1beta`. */
const REST = /^(?!v[0-9])[-_a-z.]*[A-Z0-9+=~][-_A-Za-z0-9.+=~]*$/

/** A label before a key in its segment: `Bearer `, `key=`. A `=` at the end of base64 belongs to the key. */
const LABEL = /^(?:.* )?(?:[A-Za-z_-]+=(?!=*$))?/s

/** Segments that are compared; each costs up to four digests. No route has as many; the rest is not shown. */
const MAX_SEGMENTS = 32

/** The keys of this gateway, which may have any format. */
export type OwnKeys = {
  readonly has: (text: string) => boolean
  /** The distinct numbers of slashes in keys that contain any, descending. */
  readonly slashes: readonly number[]
}

/** Computes `OwnKeys.slashes`. */
export const slashesIn = (keys: readonly string[]): readonly number[] =>
  [...new Set(keys.map((key) => key.split('/').length - 1))].filter((count) => count > 0).sort((a, b) => b - a)

/** Returns the path with every key replaced. `known`: the path has a route, whose `{id}` may be long and random. */
export const maskPath = (path: string, keys: OwnKeys, known: boolean): string => {
  const segments = path.split('/', MAX_SEGMENTS + 1)
  const plain = segments.map(decoded)
  const shown: string[] = []
  for (let at = 0; at < segments.length; at++) {
    if (at === MAX_SEGMENTS) {
      shown.push('…')
      break
    }
    const length = keyAt(plain, at, keys, known)
    shown.push(length > 0 ? MASK : (segments[at] ?? ''))
    at += Math.max(0, length - 1)
  }
  return shown.join('/')
}

/** The number of segments that a key takes from this one on; 0: no key begins here. */
const keyAt = (plain: readonly string[], at: number, keys: OwnKeys, known: boolean): number => {
  for (const slashes of [...keys.slashes, 0]) {
    if (at + slashes >= plain.length) continue
    const text = plain.slice(at, at + slashes + 1).join('/')
    if (keys.has(text) || keys.has(text.replace(LABEL, ''))) return slashes + 1
  }
  const value = plain[at]?.replace(LABEL, '') ?? ''
  if (value === '') return 0
  const end = plain.findIndex((segment, index) => index > at && !REST.test(segment))
  const rest = plain.slice(at + 1, end === -1 ? plain.length : end)
  const isSecret = KNOWN_PREFIX.test(value + rest.join('')) || (!known && RANDOM.test(value))
  if (isSecret) return 1 + rest.length
  return hasSecretPart(plain[at] ?? '', keys, known) ? 1 : 0
}

/** Whether a key is a part of a segment, between other characters: `a,KEY`, `chat;key=KEY`, `"KEY"`. */
const hasSecretPart = (segment: string, keys: OwnKeys, known: boolean): boolean => {
  const labelled = segment.split(BETWEEN)
  const parts = [...new Set([...labelled, ...labelled.flatMap((part) => part.split('='))])].filter(
    (part) => part !== segment && part.length >= SHORTEST,
  )
  // More are not compared: each costs a digest.
  if (parts.length > MAX_PARTS) return true
  return parts.some((part) => KNOWN_PREFIX.test(part) || keys.has(part) || (!known && RANDOM.test(part)))
}

/** What no key has. A malformed escape is left out with its digits. */
const BETWEEN = /%.{2}|[^-_A-Za-z0-9.~+=]/s
/** Characters of a part that may be a key, and parts that are compared. */
const SHORTEST = 8
const MAX_PARTS = 16

/** A client may have escaped a segment that was escaped already. */
const MAX_ESCAPED = 3

const decoded = (segment: string): string => {
  let text = segment
  try {
    for (let times = 0; times < MAX_ESCAPED && text.includes('%'); times++) text = decodeURIComponent(text)
  } catch {
    // A malformed escape: the segment is compared as far as it was decoded.
  }
  return text
}
