/**
 * Microsoft Entra tokens from a client secret, a federated token (workload identity in Kubernetes) or the machine's managed
 * identity, in the order of DefaultAzureCredential
 * (https://learn.microsoft.com/azure/developer/javascript/sdk/authentication/credential-chains).
 */

import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Env } from '../../config/env.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import { type JsonObject, number, text } from '../../core/json.ts'
import { withoutSlashes } from '../../core/trailing-slashes.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'
import type { Fetched } from './credential-cache.ts'
import {
  credentialFailure,
  detailOf,
  permanent,
  type Reason,
  type ReportError,
  reasonForResponse,
  transient,
} from './credential-errors.ts'
import type { Environment } from './environment.ts'
import { requestToken } from './token-request.ts'

export type EntraOptions = { readonly dial: Dial; readonly environment: Environment; readonly report: ReportError }

type TokenRequest = Pick<UpstreamCall, 'method' | 'url' | 'headers' | 'body'>

/** Attempts while the token server is temporarily unavailable, and the first delay in ms, which doubles. */
const MAX_ATTEMPTS = 3
const FIRST_DELAY = 400

/** Fetches a token for `scope`. An abort ends the fetch. */
export const entraToken = async (
  { dial, environment, report }: EntraOptions,
  scope: string,
  signal: AbortSignal,
): Promise<Outcome<Fetched<string>>> => {
  const env = await environment()
  const refuse = (reason: Reason, detail: string) => {
    const failure = credentialFailure('entra', reason)
    report({ cloud: 'entra', message: failure.message, detail })
    return bad(failure)
  }
  const prepared = await tokenRequest(env, scope)
  if (!prepared.ok) return refuse(permanent(prepared.why), prepared.detail)
  for (let attempts = 1; ; attempts++) {
    const response = await requestToken(dial, prepared.request, signal)
    if (!response.ok && signal.aborted) return response
    const status = response.ok ? response.value.status : 0
    // IMDS recommends retries on 404, 410, 429 and 5xx ("Retry guidance" of its token page); 404 is treated as permanent.
    // A failed connection is not retried: without a metadata server a retry fails too.
    const isRetryable = response.ok ? status === 410 || status === 429 || status >= 500 : !response.failure.unsent
    if (isRetryable && attempts < MAX_ATTEMPTS && !signal.aborted) {
      // An abort rejects here, which ends the fetch; its outcome is then discarded.
      await sleep(FIRST_DELAY * 2 ** (attempts - 1), undefined, { signal })
      continue
    }
    if (!response.ok) return refuse(transient('the token server is unreachable'), response.failure.message)
    const { body } = response.value
    const code = text(body?.error)
    if (status !== 200)
      return refuse(
        reasonForResponse(status, code),
        `${status} ${detailOf(new Error(text(body?.error_description) ?? code ?? ''))}`,
      )
    const token = text(body?.access_token)
    if (token === undefined || !HEADER_VALUE.test(token))
      return refuse(permanent('the token server returned no valid token'), `${status}`)
    return good({ value: token, expires: expiryIn(body ?? {}, Date.now()) })
  }
}

const HEADER_VALUE = /^[\x21-\x7e]+$/

const IMDS = 'http://169.254.169.254'
const AUTHORITY = 'https://login.microsoftonline.com'

type Prepared =
  | { readonly ok: true; readonly request: TokenRequest }
  | { readonly ok: false; readonly why: string; readonly detail: string }

const tokenRequest = async (env: Env, scope: string): Promise<Prepared> => {
  const { AZURE_TENANT_ID: tenant, AZURE_CLIENT_ID: client, AZURE_CLIENT_SECRET: secret } = env
  if (tenant && client && secret) return fromAuthority({ env, tenant, client, scope }, { client_secret: secret })
  const { AZURE_FEDERATED_TOKEN_FILE: file } = env
  if (tenant && client && file) {
    try {
      // Kubernetes rotates this file about every hour.
      const assertion = (await readFile(file, 'utf8')).trim()
      return fromAuthority(
        { env, tenant, client, scope },
        {
          client_assertion_type: JWT_BEARER,
          client_assertion: assertion,
        },
      )
    } catch (error) {
      return { ok: false, why: 'the file in AZURE_FEDERATED_TOKEN_FILE cannot be read', detail: detailOf(error) }
    }
  }
  return fromMachine(env, client, scope)
}

const JWT_BEARER = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

type Application = { readonly env: Env; readonly tenant: string; readonly client: string; readonly scope: string }

/** https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow */
const fromAuthority = (
  { env, tenant, client, scope }: Application,
  credential: Readonly<Record<string, string>>,
): Prepared => {
  const authority = withoutSlashes(env.AZURE_AUTHORITY_HOST || AUTHORITY)
  if (!isSafe(authority)) return { ok: false, why: 'AZURE_AUTHORITY_HOST is not an https URL', detail: 'not requested' }
  return {
    ok: true,
    request: {
      method: 'POST',
      url: `${authority}/${encodeURIComponent(tenant)}/oauth2/v2.0/token`,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: client,
        scope,
        ...credential,
      }).toString(),
    },
  }
}

/** The machine's managed identity; a client ID selects one of several. */
const fromMachine = (env: Env, client: string | undefined, scope: string): Prepared => {
  // This endpoint expects the resource instead of its `.default` scope.
  const resource = scope.replace(/\/\.default$/, '')
  const query = new URLSearchParams({ resource, ...(client && { client_id: client }) })
  const { IDENTITY_ENDPOINT: endpoint, IDENTITY_HEADER: header } = env
  const get = (url: string, headers: Record<string, string>): Prepared => ({
    ok: true,
    request: { method: 'GET', url, headers },
  })
  // App Service, Functions, Container Apps: https://learn.microsoft.com/azure/app-service/overview-managed-identity
  if (endpoint && header) return get(`${endpoint}?api-version=2019-08-01&${query}`, { 'x-identity-header': header })
  if (endpoint)
    return { ok: false, why: 'IDENTITY_ENDPOINT is set without IDENTITY_HEADER', detail: 'Azure Arc is not supported' }
  // Virtual machines, AKS: https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token
  const host = withoutSlashes(env.AZURE_POD_IDENTITY_AUTHORITY_HOST || IMDS)
  return get(`${host}/metadata/identity/oauth2/token?api-version=2018-02-01&${query}`, { metadata: 'true' })
}

/** Client secrets are only sent encrypted, or to this machine. */
const isSafe = (address: string): boolean =>
  URL.canParse(address) &&
  (new URL(address).protocol === 'https:' || /^(?:127\.[0-9.]+|localhost|\[::1\])$/.test(new URL(address).hostname))

/** Expiry in ms since 1970, from `expires_in` (s) or `expires_on` (s since 1970), as numbers or text. Without either: now. */
const expiryIn = (body: JsonObject, now: number): number => {
  const seconds = (value: unknown) =>
    number(value) ?? (/^[0-9]{1,12}$/.test(text(value) ?? '') ? Number(value) : undefined)
  const on = seconds(body.expires_on)
  const left = seconds(body.expires_in)
  if (left !== undefined) return now + left * 1000
  return on === undefined ? now : on * 1000
}
