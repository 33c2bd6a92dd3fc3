/** Tokens of a person at a gateway: requests, refreshes, and their end. */
import { z } from 'zod'
import type { Env } from '../config/env.ts'
import { parseJson } from '../core/json.ts'
import { CliError, EXIT } from './cli.ts'
import { readCredentials, type StoredTokens, storeCredential } from './credentials.ts'
import { gatewayFetch } from './gateway-fetch.ts'

/** ms for which a token must still be valid. */
const LEFT = 5 * 60_000
const TIMEOUT = 30_000
/** For a refresh. Repeated while the gateway gives the same answer again: a lost answer must not end the sign-in. */
const REFRESH = { timeout: 15_000, tries: 3 }

const TOKENS = z.looseObject({
  access_token: z.string(),
  refresh_token: z.string(),
  expires_in: z.number(),
  email: z.string().nullish(),
})
const OAUTH_ERROR = z.looseObject({ error: z.string(), error_description: z.string().optional() })

/** An answer of a path below `/oauth`. `error`: the code of OAuth; null: the answer is no error of OAuth. */
export type OAuthAnswer =
  | { readonly ok: true; readonly body: unknown }
  | { readonly ok: false; readonly status: number; readonly error: string | null; readonly text: string }

/** A form for a path of the gateway at `url`. `timeout`: ms. */
type SentForm = {
  readonly url: string
  readonly path: string
  readonly fields: Readonly<Record<string, string>>
  readonly timeout?: number
}

/** Sends a form. Throws `CliError` if there is no answer. */
export const sendForm = async (env: Env, { url, path, fields, timeout = TIMEOUT }: SentForm): Promise<OAuthAnswer> => {
  const sent = { method: 'POST', body: new URLSearchParams(fields), redirect: 'error' } as const
  let response: Response
  let text: string
  try {
    response = await gatewayFetch(env, url + path, { ...sent, signal: AbortSignal.timeout(timeout) })
    text = await response.text()
  } catch (error) {
    if (error instanceof CliError) throw error
    const reason = error instanceof Error ? error.message : 'unknown error'
    throw new CliError(EXIT.unreachable, `The gateway at ${url} cannot be reached: ${reason}.`)
  }
  const body = bodyIn(text)
  if (response.ok) return { ok: true, body }
  const read = OAUTH_ERROR.safeParse(body)
  const { status } = response
  return read.success
    ? { ok: false, status, error: read.data.error, text: read.data.error_description ?? read.data.error }
    : { ok: false, status, error: null, text: `The gateway at ${url} answered with status ${status}.` }
}

const bodyIn = (text: string): unknown => {
  try {
    return parseJson(text)
  } catch {
    return null
  }
}

/** Stores the tokens of an answer. Throws `CliError` if it has none. */
export const keepTokens = async (env: Env, url: string, body: unknown): Promise<StoredTokens> => {
  const read = TOKENS.safeParse(body)
  if (!read.success) throw new CliError(EXIT.failed, `The answer of the gateway at ${url} has no tokens.`)
  const { access_token, refresh_token, expires_in, email } = read.data
  const credential = { access_token, refresh_token, expires_at: Date.now() + expires_in * 1_000, email: email ?? null }
  await storeCredential(env, url, credential)
  return credential
}

/** The answer to a refresh. Without any, it is an error of no status. */
const refreshed = async (env: Env, url: string, refresh_token: string): Promise<OAuthAnswer> => {
  const fields = { grant_type: 'refresh_token', refresh_token }
  let text = ''
  for (let tries = 0; tries < REFRESH.tries; tries++)
    try {
      return await sendForm(env, { url, path: '/oauth/token', fields, timeout: REFRESH.timeout })
    } catch (error) {
      if (!(error instanceof CliError)) throw error
      text = error.message
    }
  return { ok: false, status: 0, error: null, text }
}

/** A valid access token for a gateway; null: there is no sign-in. Throws `CliError` if the sign-in has ended. */
export const accessToken = async (env: Env, url: string): Promise<string | null> => {
  const credential = (await readCredentials(env)).gateways[url]
  if (!credential) return null
  if (credential.expires_at - Date.now() > LEFT) return credential.access_token
  const { refresh_token } = credential
  const answer = await refreshed(env, url, refresh_token)
  if (answer.ok) return (await keepTokens(env, url, answer.body)).access_token
  // Another program may have refreshed in the meantime.
  const now = (await readCredentials(env)).gateways[url]
  if (now && now.refresh_token !== refresh_token && now.expires_at > Date.now()) return now.access_token
  if (answer.error === 'invalid_grant') {
    if (now?.refresh_token === refresh_token) await storeCredential(env, url, null)
    throw new CliError(EXIT.notPermitted, `Your sign-in at ${url} has ended. Run headgate login --url ${url}.`)
  }
  if (credential.expires_at > Date.now()) return credential.access_token
  throw new CliError(EXIT.unreachable, `The token for ${url} cannot be refreshed: ${answer.text}`)
}
