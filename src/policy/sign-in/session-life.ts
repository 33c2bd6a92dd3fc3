/** How long a session of a person lasts. Times in ms since 1970. */
import type { SessionRules } from '../../core/sign-in.ts'

/** ms for which a session lasts at most whose issuer gave no refresh token: access cannot be checked. */
const UNCHECKED = 8 * 3_600_000
/** ms to the next check after the issuer did not answer. */
const RETRY = 60_000

/** `isCheckable`: the issuer gave a refresh token. */
export type SessionTimes = { readonly begun: number; readonly used: number; readonly isCheckable: boolean }

/** When the session ends. */
export const sessionEnd = ({ begun, used, isCheckable }: SessionTimes, { idle, max }: SessionRules): number =>
  Math.min(used + idle, begun + (isCheckable ? max : Math.min(max, UNCHECKED)))

/** Whether access must be checked at the issuer now. `checked`: the time of the last check. */
export const isCheckDue = (checked: number, { recheck }: SessionRules, now: number): boolean => now - checked >= recheck

/** The time of the last check to note if the issuer does not answer, so that the next one is soon. */
export const retriedCheck = ({ recheck }: SessionRules, now: number): number => now - recheck + Math.min(RETRY, recheck)
