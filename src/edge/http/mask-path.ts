/** A request path without credentials in it: clients with a wrong base URL put keys into paths, and paths are logged. */

const MASK = '[key]'

/** Prefixes of the keys that vendors and this gateway issue, before at least 12 characters of a key. */
const KNOWN_PREFIX =
  /^(?:sk|pk|rk|gsk|csk|xai|nvapi|pplx|hf|fw|r8|tgp|hg|gh[pousr]|glpat)[-_][-_A-Za-z0-9.]{12,}$|^(?:AIza|AKIA|ASIA|eyJ)[-_A-Za-z0-9.]{12,}$/

/** Random text: at least 24 characters with letters and digits mixed. Ids and model names look alike, so only unknown paths are tested for it. */
const RANDOM = /^(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[-_A-Za-z0-9.~+=]{24,}$/

/** Segments that are compared, since each costs up to four digests; no route has as many. The rest is not shown. */
const MOST_SEGMENTS = 32

/** `isClientKey` finds keys of any form. `known`: the path has a route, whose `{id}` may be long and random. */
export const maskPath = (path: string, isClientKey: (segment: string) => boolean, known: boolean): string =>
  path
    .split('/', MOST_SEGMENTS + 1)
    .map((segment, at) => {
      if (at === MOST_SEGMENTS) return '…'
      const plain = decoded(segment)
      // `/Bearer%20KEY` and `/key=KEY` carry a key too.
      const value = plain.slice(Math.max(plain.lastIndexOf(' '), plain.lastIndexOf('=', plain.length - 2)) + 1)
      const secret =
        value !== '' &&
        (KNOWN_PREFIX.test(value) || isClientKey(plain) || isClientKey(value) || (!known && RANDOM.test(value)))
      return secret ? MASK : segment
    })
    .join('/')

const decoded = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch {
    // A malformed escape: the segment is compared as it was sent.
    return segment
  }
}
