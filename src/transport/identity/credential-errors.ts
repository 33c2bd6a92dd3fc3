/** Errors for missing cloud credentials: a safe message for the client, with details for the log only. */
import { type Failure, fail } from '../../core/failure.ts'
import type { Identity } from '../../core/provider.ts'
import { maskSecrets } from '../../protocols/errors/mask-secrets.ts'

export type Cloud = Identity['cloud']

/** Writes a credential error to the log. `detail` is not sent to clients. */
export type ReportError = (error: { readonly cloud: Cloud; readonly message: string; readonly detail: string }) => void

const TEXTS: { readonly [cloud in Cloud]: { readonly name: string; readonly remedy: string } } = {
  aws: {
    name: 'AWS credentials',
    remedy:
      "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE (after `aws sso login`, if it needs that), or give the machine a role; or set the provider's API key.",
  },
  google: {
    name: 'Google default credentials',
    remedy:
      "Set GOOGLE_APPLICATION_CREDENTIALS to a credential file, or run `gcloud auth application-default login`, or give the machine a service account; or set the provider's API key.",
  },
  entra: {
    name: 'Microsoft Entra credentials',
    remedy:
      "Set AZURE_TENANT_ID and AZURE_CLIENT_ID with AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE, or give the machine a managed identity; or set the provider's API key.",
  },
}

/**
 * Why there are no credentials: a clause for the message, without digits, which some clients parse as a status.
 * `transient`: the token server is unreachable or failing, so the configuration may be correct.
 */
export type Reason = { readonly text: string; readonly transient: boolean }

/** A reason that lasts until the configuration or the permissions change. */
export const permanent = (text: string): Reason => ({ text, transient: false })
/** A reason that may disappear without a change. */
export const transient = (text: string): Reason => ({ text, transient: true })

/** The failure for a call that was not sent, so another target may be tried at once. */
export const credentialFailure = (cloud: Cloud, reason: Reason): Failure =>
  fail(
    reason.transient ? 'sign_in' : 'auth',
    `${TEXTS[cloud].name} are not available: ${reason.text}. ${TEXTS[cloud].remedy}`,
    { unsent: true },
  )

/**
 * The reason for a credential library that is not installed, as in the npm package, where it is optional. Undefined for
 * other errors.
 */
export const missingPackage = (name: string, error: unknown): Reason | undefined =>
  codeOf(error) === 'ERR_MODULE_NOT_FOUND' && error instanceof Error && error.message.includes(`'${name}'`)
    ? permanent(`the package ${name} is not installed; \`npm install ${name}\` in the folder of headgate adds it`)
    : undefined

/** OAuth error codes (RFC 6749, section 5.2) that mean the credentials are wrong. */
const REFUSALS: ReadonlySet<string> = new Set([
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_resource',
  'invalid_scope',
  'unauthorized_client',
  'unsupported_grant_type',
  'access_denied',
])

/** The reason for an error response of a token server. */
export const reasonForResponse = (status: number, code: string | undefined): Reason => {
  if (code !== undefined && REFUSALS.has(code)) return permanent(`the token server refused the request (${code})`)
  if (status === 404) return permanent('the token server does not know this machine or identity')
  const refused = status >= 400 && status < 500 && status !== 408 && status !== 410 && status !== 429
  return refused
    ? permanent('the token server refused the request')
    : transient('the token server is temporarily unavailable')
}

const MAX_DETAIL = 400

/** An error and its causes for the log: one line of at most 400 characters, with secrets masked. Parser errors are reduced to their name, since they quote their input. */
export const detailOf = (error: unknown): string => {
  const texts: string[] = []
  for (let one: unknown = error, depth = 0; one instanceof Error && depth < 4; one = one.cause, depth++) {
    const code = 'code' in one && typeof one.code === 'string' ? ` (${one.code})` : ''
    texts.push(one instanceof SyntaxError || /JSON/.test(one.message) ? `${one.name}${code}` : `${one.message}${code}`)
  }
  const all = (texts.length > 0 ? texts.join(': ') : 'unknown').replaceAll(/\s+/g, ' ')
  return maskSecrets(all.slice(0, MAX_DETAIL))
}

/** The first network or system error code in an error and its causes. */
export const codeOf = (error: unknown): string | undefined => {
  for (let one: unknown = error, depth = 0; one instanceof Error && depth < 4; depth++) {
    if ('code' in one && typeof one.code === 'string') return one.code
    one = one instanceof AggregateError ? one.errors[0] : one.cause
  }
  return undefined
}
