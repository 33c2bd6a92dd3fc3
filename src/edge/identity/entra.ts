/**
 * Tokens of Microsoft Entra, from what this process is given: an application's secret, a federated token (workload
 * identity in Kubernetes), or the machine's managed identity. In this order, as DefaultAzureCredential has it
 * (https://learn.microsoft.com/azure/developer/javascript/sdk/authentication/credential-chains).
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { bad, good, type Outcome } from '../../core/failure.ts'
import { type JsonObject, number, text } from '../../core/json.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'
import type { Fetched } from './credential-cache.ts'
import { answered, detailOf, lasting, noSignIn, passing, type Tell, type Why } from './credential-errors.ts'
import type { Environment } from './environment.ts'
import { ask } from './token-request.ts'

export type EntraOptions = { readonly dial: Dial; readonly environment: Environment; readonly tell: Tell }

type Question = Pick<UpstreamCall, 'method' | 'url' | 'headers' | 'body'>

/** Times it is asked when the server says it cannot just now, and the first wait between two (ms), which doubles. */
const TRIES = 3
const WAIT = 400

/** A token for `scope`; the signal ends it. */
export const entraToken = async (
  { dial, environment, tell }: EntraOptions,
  scope: string,
  signal: AbortSignal,
): Promise<Outcome<Fetched<string>>> => {
  const env = await environment()
  const refuse = (why: Why, detail: string) => {
    const failure = noSignIn('entra', why)
    tell({ cloud: 'entra', message: failure.message, detail })
    return bad(failure)
  }
  const made = await questionFor(env, scope)
  if (!made.ok) return refuse(lasting(made.why), made.detail)
  for (let tries = 1; ; tries++) {
    const said = await ask(dial, made.question, signal)
    const status = said.ok ? said.value.status : 0
    // IMDS wants 404, 410, 429 and 5xx tried again (its page on tokens, "Retry guidance"); 404 is the lasting one of them.
    // Where nobody is, nobody comes a moment later either.
    const mayPass = said.ok ? status === 410 || status === 429 || status >= 500 : !said.failure.unsent
    if (mayPass && tries < TRIES && !signal.aborted) {
      // Aborted, it ends the fetch, whose outcome nobody waits for any more.
      await sleep(WAIT * 2 ** (tries - 1), undefined, { signal })
      continue
    }
    if (!said.ok) return refuse(passing('the token server could not be reached'), said.failure.message)
    const { body } = said.value
    const code = text(body?.error)
    if (status !== 200)
      return refuse(
        answered(status, code),
        `${status} ${detailOf(new Error(text(body?.error_description) ?? code ?? ''))}`,
      )
    const token = text(body?.access_token)
    if (token === undefined || !HEADER_VALUE.test(token))
      return refuse(lasting('the token server answered with something that is no token'), `${status}`)
    return good({ value: token, expires: expiryIn(body ?? {}, Date.now()) })
  }
}

const HEADER_VALUE = /^[\x21-\x7e]+$/

const IMDS = 'http://169.254.169.254'
const AUTHORITY = 'https://login.microsoftonline.com'

type Env = Awaited<ReturnType<Environment>>

type Made =
  | { readonly ok: true; readonly question: Question }
  | { readonly ok: false; readonly why: string; readonly detail: string }

const questionFor = async (env: Env, scope: string): Promise<Made> => {
  const { AZURE_TENANT_ID: tenant, AZURE_CLIENT_ID: client, AZURE_CLIENT_SECRET: secret } = env
  if (tenant && client && secret) return fromAuthority(env, tenant, client, scope, { client_secret: secret })
  const { AZURE_FEDERATED_TOKEN_FILE: file } = env
  if (tenant && client && file) {
    try {
      // Kubernetes writes a new one into the file every hour or so.
      const assertion = (await readFile(file, 'utf8')).trim()
      return fromAuthority(env, tenant, client, scope, {
        client_assertion_type: JWT_BEARER,
        client_assertion: assertion,
      })
    } catch (error) {
      return { ok: false, why: 'the file AZURE_FEDERATED_TOKEN_FILE names cannot be read', detail: detailOf(error) }
    }
  }
  return fromMachine(env, client, scope)
}

const JWT_BEARER = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow */
const fromAuthority = (
  env: Env,
  tenant: string,
  client: string,
  scope: string,
  proof: Record<string, string>,
): Made => {
  const authority = (env.AZURE_AUTHORITY_HOST || AUTHORITY).replace(/\/+$/, '')
  if (!isSafe(authority)) return { ok: false, why: 'AZURE_AUTHORITY_HOST is no https address', detail: 'not asked' }
  return {
    ok: true,
    question: {
      method: 'POST',
      url: `${authority}/${encodeURIComponent(tenant)}/oauth2/v2.0/token`,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ grant_type: 'client_credentials', client_id: client, scope, ...proof }).toString(),
    },
  }
}

/** The managed identity of the machine; with a client id the one of that id, of several. */
const fromMachine = (env: Env, client: string | undefined, scope: string): Made => {
  // It is asked for a resource where the others ask for a scope of it.
  const resource = scope.replace(/\/\.default$/, '')
  const query = new URLSearchParams({ resource, ...(client && { client_id: client }) })
  const { IDENTITY_ENDPOINT: endpoint, IDENTITY_HEADER: header } = env
  const get = (url: string, headers: Record<string, string>): Made => ({
    ok: true,
    question: { method: 'GET', url, headers },
  })
  // App Service, Functions, Container Apps: https://learn.microsoft.com/azure/app-service/overview-managed-identity
  if (endpoint && header) return get(`${endpoint}?api-version=2019-08-01&${query}`, { 'x-identity-header': header })
  if (endpoint)
    return { ok: false, why: 'IDENTITY_ENDPOINT is set without IDENTITY_HEADER', detail: 'Azure Arc is not supported' }
  // Machines, AKS: https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token
  const host = (env.AZURE_POD_IDENTITY_AUTHORITY_HOST || IMDS).replace(/\/+$/, '')
  return get(`${host}/metadata/identity/oauth2/token?api-version=2018-02-01&${query}`, { metadata: 'true' })
}

/** A secret goes over the network only encrypted. */
const isSafe = (address: string): boolean =>
  URL.canParse(address) &&
  (new URL(address).protocol === 'https:' || /^(?:127\.[0-9.]+|localhost|\[::1\])$/.test(new URL(address).hostname))

/** `expires_on` in s since 1970, or `expires_in` in s; numbers, or as text (App Service, IMDS). Neither: it is used once. */
const expiryIn = (body: JsonObject, now: number): number => {
  const seconds = (value: unknown) =>
    number(value) ?? (/^[0-9]{1,12}$/.test(text(value) ?? '') ? Number(value) : undefined)
  const on = seconds(body.expires_on)
  const left = seconds(body.expires_in)
  if (left !== undefined) return now + left * 1000
  return on === undefined ? now : on * 1000
}
