/** The device flow (RFC 8628): codes that a person types, polls, and refresh tokens. Times in ms. */

/** Consonants without Y: no words, and no letter that looks like another (RFC 8628, 6.1). */
const LETTERS = 'BCDFGHJKLMNPQRSTVWXZ'
const CODE_LENGTH = 8
/** Bytes from here on would make some letters more frequent. */
const FAIR = 256 - (256 % LETTERS.length)

/** How long a code is valid, and the pause between two polls. */
export const DEVICE_LIFE = 600_000
export const POLL_PAUSE = 5_000
/** Added to the pause by each poll that comes too soon. */
const SLOWER = 5_000
/** By which a poll may come too soon: timers and networks are not exact. */
const EARLY = 500

/** How long an access token is valid. */
export const ACCESS_LIFE = 3_600_000
/** How long a refresh token that was used gives the same answer: two programs share one. */
export const REFRESH_GRACE = 60_000
/** How long a sign-in lasts after its last use. Without a refresh token of the issuer: after its beginning. */
const SIGN_IN_LIFE = 14 * 24 * 3_600_000

/** Draws a code, without the dash. */
export const createUserCode = (random: (count: number) => Uint8Array): string => {
  let code = ''
  while (code.length < CODE_LENGTH)
    for (const byte of random(CODE_LENGTH)) if (byte < FAIR) code += LETTERS[byte % LETTERS.length]
  return code.slice(0, CODE_LENGTH)
}

/** A code as a person typed it, without what separates its letters; null: it cannot be one. */
export const readUserCode = (typed: string): string | null => {
  const code = typed.slice(0, 100).toUpperCase().replaceAll(/[\s-]/g, '')
  return code.length === CODE_LENGTH && [...code].every((letter) => LETTERS.includes(letter)) ? code : null
}

/** A code as it is shown. */
export const shownUserCode = (code: string): string =>
  `${code.slice(0, CODE_LENGTH / 2)}-${code.slice(CODE_LENGTH / 2)}`

/** `polled`: the last poll; null: none. `pause`: between two. */
export type Polls = { readonly polled: number | null; readonly pause: number }

/** A poll before the person has decided. `slow_down`: it comes too soon, and later ones must wait for longer. */
export const nextPoll = (
  { polled, pause }: Polls,
  now: number,
): { readonly error: 'authorization_pending' | 'slow_down'; readonly pause: number } =>
  polled !== null && now - polled < pause - EARLY
    ? { error: 'slow_down', pause: pause + SLOWER }
    : { error: 'authorization_pending', pause }

/** What a refresh token gives. `used`: when it was used first; null: never. `replayed`: its sign-in ends. */
export const refreshUse = (used: number | null, now: number): 'first' | 'again' | 'replayed' => {
  if (used === null) return 'first'
  return now - used <= REFRESH_GRACE ? 'again' : 'replayed'
}

/** When a sign-in ends. `isCheckable`: the issuer gave a refresh token, with which each use is checked. */
export const signInEnd = ({
  begun,
  used,
  isCheckable,
}: {
  begun: number
  used: number
  isCheckable: boolean
}): number => (isCheckable ? used : begun) + SIGN_IN_LIFE
