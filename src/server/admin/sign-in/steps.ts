/** What the steps of a sign-in share: the cookie of begun ones, addresses, the audit log. */
import type { ResponseWriter } from '../../../core/http-exchange.ts'
import type { JsonObject } from '../../../core/json.ts'
import type { SignInSettings } from '../../../core/sign-in.ts'
import { type PendingSignIn, readPending } from '../../../policy/sign-in/pending.ts'
import type { PersonLogin, RunOperation } from '../../../records/store/record-operations.ts'
import type { AdminRequest } from '../../admin-request.ts'
import { SIGN_IN_PATHS } from '../../sign-in-paths.ts'
import { cookieValue } from '../cookies.ts'
import { SESSION_CONTEXT } from '../sessions.ts'
import type { IssuerAnswer } from './issuer.ts'
import { seal, unseal } from './sealing.ts'

/** The settings with which a request began, and the request. */
export type SignInStep = {
  readonly settings: SignInSettings
  readonly request: AdminRequest
  readonly reply: ResponseWriter
}

/** ms for which a sign-in may take. */
export const SIGN_IN_TIME = 600_000
/** Characters of a stored token of an issuer; a longer one is not stored. */
const MAX_TOKEN = 16_384
const PENDING_COOKIE = { secure: '__Host-headgate-login', loopback: 'headgate-login' }

export const NO_STORE = { 'cache-control': 'no-store' } as const

/** The address to which an issuer sends browsers back. */
export const callbackOf = ({ publicUrl }: SignInSettings): string => `${publicUrl}${SIGN_IN_PATHS.callback}`

/** The address at which a browser begins. */
export const signInUrl = ({ publicUrl }: SignInSettings, provider: string, to?: string): string =>
  `${publicUrl}${SIGN_IN_PATHS.login}?${new URLSearchParams({ provider, ...(to !== undefined && { return: to }) })}`

/** For the log. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : 'unknown error')

const pendingName = (publicUrl: string): string =>
  publicUrl.startsWith('https:') ? PENDING_COOKIE.secure : `${PENDING_COOKIE.loopback}-${new URL(publicUrl).port}`

/** The header that sets the cookie of begun sign-ins. */
export const pendingCookie = ({ publicUrl, secrets }: SignInSettings, pending: readonly PendingSignIn[]): string => {
  const secure = publicUrl.startsWith('https:') ? '; Secure' : ''
  const sealed = seal(secrets, 'cookie', JSON.stringify(pending))
  return `${pendingName(publicUrl)}=${sealed}; Path=/; Max-Age=${SIGN_IN_TIME / 1_000}; HttpOnly; SameSite=Lax${secure}`
}

/** The sign-ins that the browser has begun. */
export const pendingOf = ({ settings: { publicUrl, secrets }, request }: SignInStep): readonly PendingSignIn[] => {
  const sealed = cookieValue(request.headers, pendingName(publicUrl))
  const content = sealed === undefined ? null : unseal(secrets, 'cookie', sealed)
  return content === null ? [] : readPending(JSON.parse(content))
}

/** A sign-in as it is stored: with encrypted tokens. Times in ms since 1970. */
export const storedLogin = (
  { secrets }: SignInSettings,
  { idToken, refreshToken }: Pick<IssuerAnswer, 'idToken' | 'refreshToken'>,
  { begun, checked }: Pick<PersonLogin, 'begun' | 'checked'>,
): PersonLogin => {
  const stored = (token: string | null) =>
    token === null || token.length > MAX_TOKEN ? null : seal(secrets, 'token', token)
  return { begun, checked, idToken: stored(idToken), refreshToken: stored(refreshToken) }
}

/** An entry about a person. `name`: as the issuer stated it. */
type SignInEntry = {
  readonly action: 'login' | 'login.refused' | 'logout'
  readonly object: string
  readonly name: string
  readonly details: JsonObject
}

/** Adds a row to the audit log. What cannot be noted is logged by the store, and prevents no sign-in. */
export const noteSignIn = async (
  run: RunOperation,
  { address, id }: Pick<AdminRequest, 'address' | 'id'>,
  { action, object, name, details }: SignInEntry,
): Promise<void> => {
  const actor = { kind: 'person', id: object, name }
  await run({ do: 'note', action, object, details }, { ...SESSION_CONTEXT, actor, from: address, requestId: id })
}
