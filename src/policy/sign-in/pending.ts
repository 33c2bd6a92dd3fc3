/** Sign-ins that a browser has begun: the content of its cookie, and where it goes afterwards. */
import { isList, isObject, number, text } from '../../core/json.ts'

/** Tabs that sign in at the same time. A cookie must stay small. */
const MAX_PENDING = 3

/** `state` finds it, `nonce` ties the ID token to it, `verifier` the code (PKCE). `until`: ms since 1970. */
export type PendingSignIn = {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
  readonly provider: string
  /** The path to which the browser returns. */
  readonly to: string
  readonly until: number
}

/** Adds one. Those that are over, and the oldest above three, are dropped. */
export const withPending = (
  pending: readonly PendingSignIn[],
  one: PendingSignIn,
  now: number,
): readonly PendingSignIn[] => [...current(pending, now), one].slice(-MAX_PENDING)

/** The sign-in with a state; undefined: not begun in this browser, or over. */
export const findPending = (pending: readonly PendingSignIn[], state: string, now: number): PendingSignIn | undefined =>
  current(pending, now).find((one) => one.state === state)

const current = (pending: readonly PendingSignIn[], now: number) => pending.filter(({ until }) => until > now)

/** The content of a cookie that was decrypted. What another version wrote is dropped. */
export const readPending = (content: unknown): readonly PendingSignIn[] =>
  (isList(content) ? content : []).flatMap((one) => {
    if (!isObject(one)) return []
    const [state, nonce, verifier] = [text(one.state), text(one.nonce), text(one.verifier)]
    const [provider, to, until] = [text(one.provider), text(one.to), number(one.until)]
    const isWhole = state && nonce && verifier && provider && to && until !== undefined
    return isWhole ? [{ state, nonce, verifier, provider, to, until }] : []
  })

/** The default, and what each path must begin with. */
const HOME = '/dashboard/'
/** The page on which a person confirms the code of a program. */
export const DEVICE_PAGE = '/device'
const MAX_PATH = 1_000

/** The path of a request if it is one of the dashboard, or the page for codes; otherwise the first page. It never leads to another host. */
export const returnPath = (wanted: string | null | undefined): string => {
  if (wanted === DEVICE_PAGE) return DEVICE_PAGE
  if (wanted === null || wanted === undefined || wanted.length > MAX_PATH || !wanted.startsWith(HOME)) return HOME
  // Browsers read `\` as `/`, drop tabs and line breaks, and resolve `..`, also as `%2e`.
  const isPlain = /^[\x21-\x7e]*$/.test(wanted) && !/\\|\/\/|\/(?:\.|%2e){1,2}(?:[/?#]|$)/i.test(wanted)
  return isPlain ? wanted : HOME
}
