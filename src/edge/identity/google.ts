/** Google's default credentials, by Google's library: a credential file, gcloud's own, or the metadata server. */
import type { GoogleAuth } from 'google-auth-library'
import { bad, good } from '../../core/failure.ts'
import type { Fetch, Fetched } from './credential-cache.ts'
import { answered, codeOf, detailOf, lasting, noSignIn, passing, type Tell, type Why } from './credential-errors.ts'
import { type Environment, lend } from './environment.ts'

export type GoogleOptions = { readonly environment: Environment; readonly tell: Tell }

/** `authorization`, and `x-goog-user-project` if the credentials name a project to charge. */
type Headers = Readonly<Record<string, string>>

/**
 * Gets the headers for a scope. Each time from the beginning: the library would give the token it has until that ends,
 * one that was refused too, and shares what is under way with everybody who asks later, so that what hangs would hang
 * for ever.
 */
export const googleHeaders =
  ({ environment, tell }: GoogleOptions, scope: string): Fetch<Headers> =>
  async () => {
    try {
      await lend(environment)
      return good(await headersOf(await open(scope)))
    } catch (error) {
      const failure = noSignIn('google', reasonOf(error))
      tell({ cloud: 'google', message: failure.message, detail: detailOf(error) })
      return bad(failure)
    }
  }

const open = async (scope: string): Promise<GoogleAuth> => {
  const { GoogleAuth } = await import('google-auth-library')
  // The project is in the address; unknown here, the library would look for it with gcloud and the metadata server.
  const auth = new GoogleAuth({ scopes: [scope], projectId: 'unused' })
  // A service account signs its token itself, as in Google's own clients (https://google.aip.dev/auth/4111): one server
  // less that has to answer.
  auth.useJWTAccessWithScope = true
  return auth
}

const headersOf = async (auth: GoogleAuth): Promise<Fetched<Headers>> => {
  const client = await auth.getClient()
  const headers = Object.fromEntries(await client.getRequestHeaders())
  if (!headers.authorization) throw new Error('no token')
  // For a token that it signs itself the library says an end of its own (1 ms after 1970).
  return { value: headers, expires: endOf(headers.authorization) || (client.credentials.expiry_date ?? 0) }
}

/** Of what a service account signs itself only the token says when it ends (RFC 7519, `exp`; ms since 1970). 0: it does not say. */
const endOf = (authorization: string): number => {
  const [, claims = ''] = authorization.split('.')
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8'))
    return typeof exp === 'number' ? exp * 1000 : 0
  } catch {
    // No JWT.
    return 0
  }
}

const reasonOf = (error: unknown): Why => {
  if (!(error instanceof Error)) return lasting('unknown reason')
  const status = statusOf(error)
  if (status !== undefined) return answered(status, oauthCodeOf(error))
  const code = codeOf(error)
  if (code?.startsWith('E') && code !== 'ENOENT' && code !== 'EACCES')
    return passing('the token server could not be reached')
  if (error.message.includes('GOOGLE_APPLICATION_CREDENTIALS'))
    return lasting('the file GOOGLE_APPLICATION_CREDENTIALS names cannot be used')
  const none = error.message.startsWith('Could not load the default credentials')
  return lasting(none ? 'there are none' : 'they cannot be used')
}

/** The library's HTTP errors bring the answer along. */
const responseOf = (error: Error): { readonly status?: unknown; readonly data?: unknown } | undefined => {
  const { response } = error as { response?: unknown }
  return typeof response === 'object' && response !== null ? response : undefined
}

const statusOf = (error: Error): number | undefined => {
  const status = responseOf(error)?.status
  return typeof status === 'number' ? status : undefined
}

const oauthCodeOf = (error: Error): string | undefined => {
  const data = responseOf(error)?.data
  const code = typeof data === 'object' && data !== null && 'error' in data ? data.error : undefined
  return typeof code === 'string' ? code : undefined
}
