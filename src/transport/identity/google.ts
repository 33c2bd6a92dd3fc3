/** Google's default credentials, from Google's library: a credential file, gcloud or the metadata server. */
import type { GoogleAuth } from 'google-auth-library'
import { bad, good } from '../../core/failure.ts'
import type { Dial } from '../../core/world.ts'
import type { Fetch, Fetched } from './credential-cache.ts'
import {
  codeOf,
  credentialFailure,
  detailOf,
  missingPackage,
  permanent,
  type Reason,
  type ReportError,
  reasonForResponse,
  transient,
} from './credential-errors.ts'
import { type Environment, exportCloudVariables } from './environment.ts'
import { fetchOver } from './library-requests.ts'

export type GoogleOptions = { readonly dial: Dial; readonly environment: Environment; readonly report: ReportError }

/** `authorization`, and `x-goog-user-project` if the credentials name a quota project. */
type AuthHeaders = Readonly<Record<string, string>>

/**
 * Fetches the headers for a scope. Each fetch uses a new client: the library returns its cached token until it expires,
 * even a refused one, and shares a request in flight with later callers, even a hanging one.
 */
export const googleHeaders =
  ({ dial, environment, report }: GoogleOptions, scope: string): Fetch<AuthHeaders> =>
  async () => {
    try {
      await exportCloudVariables(environment)
      return good(await headersOf(await open(dial, scope)))
    } catch (error) {
      const failure = credentialFailure('google', reasonOf(error))
      report({ cloud: 'google', message: failure.message, detail: detailOf(error) })
      return bad(failure)
    }
  }

const open = async (dial: Dial, scope: string): Promise<GoogleAuth> => {
  const { gaxios, GoogleAuth } = await import('google-auth-library')
  const fetchImplementation = fetchOver(dial)
  // The requests to metadata servers use the package's own instance.
  gaxios.instance.defaults = { ...gaxios.instance.defaults, fetchImplementation }
  // The URL already names the project. Without one here, the library would look it up.
  const auth = new GoogleAuth({
    scopes: [scope],
    projectId: 'unused',
    clientOptions: { transporter: new gaxios.Gaxios({ fetchImplementation }) },
  })
  // A service account signs its own token, as in Google's clients (https://google.aip.dev/auth/4111): no token server needed.
  auth.useJWTAccessWithScope = true
  return auth
}

const headersOf = async (auth: GoogleAuth): Promise<Fetched<AuthHeaders>> => {
  const client = await auth.getClient()
  const headers = Object.fromEntries(await client.getRequestHeaders())
  if (!headers.authorization) throw new Error('no token')
  // For a self-signed token the library reports a wrong expiry (1 ms after 1970).
  return { value: headers, expires: endOf(headers.authorization) || (client.credentials.expiry_date ?? 0) }
}

/** Expiry of a self-signed token (RFC 7519, `exp`) in ms since 1970; 0 if it has none. */
const endOf = (authorization: string): number => {
  const [, claims = ''] = authorization.split('.')
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8'))
    return typeof exp === 'number' ? exp * 1000 : 0
  } catch {
    // Not a JWT.
    return 0
  }
}

const reasonOf = (error: unknown): Reason => {
  const missing = missingPackage('google-auth-library', error)
  if (missing) return missing
  if (!(error instanceof Error)) return permanent('an unknown error occurred')
  const status = statusOf(error)
  if (status !== undefined) return reasonForResponse(status, oauthCodeOf(error))
  const code = codeOf(error)
  if (code?.startsWith('E') && code !== 'ENOENT' && code !== 'EACCES')
    return transient('the token server is unreachable')
  if (error.message.includes('GOOGLE_APPLICATION_CREDENTIALS'))
    return permanent('the file in GOOGLE_APPLICATION_CREDENTIALS is not usable')
  const none = error.message.startsWith('Could not load the default credentials')
  return permanent(none ? 'none were found' : 'those found are not usable')
}

/** The response of the library's HTTP errors. */
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
