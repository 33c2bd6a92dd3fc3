/** What is said of credentials that cannot be had: to whoever asks, in our words; to the log, also in theirs. */
import { type Failure, fail } from '../../core/failure.ts'
import type { Identity } from '../../core/provider.ts'
import { maskSecrets } from '../../protocols/classify.ts'

export type Cloud = Identity['cloud']

/** For the log of the operator: what a client is not told. */
export type Tell = (trouble: { readonly cloud: Cloud; readonly message: string; readonly detail: string }) => void

const WORDS: { readonly [cloud in Cloud]: { readonly what: string; readonly advice: string } } = {
  aws: {
    what: "This machine's AWS credentials",
    advice:
      "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE (after `aws sso login`, if it needs that), or give the machine a role; or set the provider's API key.",
  },
  google: {
    what: "Google's default credentials",
    advice:
      "Set GOOGLE_APPLICATION_CREDENTIALS to a credential file, or run `gcloud auth application-default login`, or give the machine a service account; or set the provider's API key.",
  },
  entra: {
    what: 'A Microsoft Entra token',
    advice:
      "Set AZURE_TENANT_ID and AZURE_CLIENT_ID with AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE, or give the machine a managed identity; or set the provider's API key.",
  },
}

/**
 * Why there is no credential, as half a sentence without digits, which some clients read as a status. `passing`: whoever
 * hands it out was not to be reached or is in trouble itself, which says nothing against who asks.
 */
export type Why = { readonly words: string; readonly passing: boolean }

/** What lasts until somebody changes it. */
export const lasting = (words: string): Why => ({ words, passing: false })
/** What may be over in a moment. */
export const passing = (words: string): Why => ({ words, passing: true })

/** Nothing was sent, and another target may be tried at once. */
export const noSignIn = (cloud: Cloud, why: Why): Failure =>
  fail(
    why.passing ? 'sign_in' : 'auth',
    `${WORDS[cloud].what} could not be had: ${why.words}. ${WORDS[cloud].advice}`,
    { unsent: true },
  )

/** OAuth's own words for a refusal (RFC 6749, 5.2) that say what is wrong with the credentials. */
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

/** How a token server put it. */
export const answered = (status: number, code: string | undefined): Why => {
  if (code !== undefined && REFUSALS.has(code)) return lasting(`the token server refused (${code})`)
  if (status === 404) return lasting('the token server does not know this machine or identity')
  const refused = status >= 400 && status < 500 && status !== 408 && status !== 410 && status !== 429
  return refused ? lasting('the token server refused') : passing('the token server does not work at the moment')
}

const LONGEST = 400

/** Theirs, for the log: bounded, on one line, without anything that looks like a key. Parsers quote what they could not read, so they are not quoted. */
export const detailOf = (error: unknown): string => {
  const words: string[] = []
  for (let one: unknown = error, depth = 0; one instanceof Error && depth < 4; one = one.cause, depth++) {
    const code = 'code' in one && typeof one.code === 'string' ? ` (${one.code})` : ''
    words.push(one instanceof SyntaxError || /JSON/.test(one.message) ? `${one.name}${code}` : `${one.message}${code}`)
  }
  const all = (words.length > 0 ? words.join(': ') : 'unknown').replaceAll(/\s+/g, ' ')
  return maskSecrets(all.slice(0, LONGEST))
}

/** The first code of the network or of the system in an error and its causes. */
export const codeOf = (error: unknown): string | undefined => {
  for (let one: unknown = error, depth = 0; one instanceof Error && depth < 4; depth++) {
    if ('code' in one && typeof one.code === 'string') return one.code
    one = one instanceof AggregateError ? one.errors[0] : one.cause
  }
  return undefined
}
