/** Signs upstream calls with the machine's cloud identity. Loaded with the first call that needs it. */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import type { Identity } from '../../core/provider.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'
import { awsCredentials, awsHeaders } from './aws.ts'
import { CredentialCache, type CredentialCacheOptions, type Fetch } from './credential-cache.ts'
import { type Cloud, credentialFailure, detailOf, permanent, type ReportError, transient } from './credential-errors.ts'
import { entraToken } from './entra.ts'
import type { Environment } from './environment.ts'
import { googleHeaders } from './google.ts'

export type SignedHeaders = {
  readonly headers: Readonly<Record<string, string>>
  /** Values to remove from error responses. */
  readonly secrets: readonly string[]
}

export type CloudSigner = {
  /** Returns the headers for a call, or a failure. Never rejects. An abort ends the wait. */
  readonly sign: (call: UpstreamCall, identity: Identity, signal: AbortSignal) => Promise<Outcome<SignedHeaders>>
  /** Reports that an upstream rejected the credentials of this identity. */
  readonly refused: (identity: Identity) => void
  /** Ends token requests in flight. */
  readonly close: () => void
}

export type CloudSignerOptions = {
  /** Connects to the token servers that the gateway calls itself. */
  readonly dial: Dial
  readonly environment: Environment
  readonly report: ReportError
  /** Time limit for fetching credentials, in ms. */
  readonly limit?: number
  /** ms since 1970. */
  readonly now?: () => number
}

const LIMIT = 10_000

export const cloudSigner = ({ dial, environment, report, limit = LIMIT, now }: CloudSignerOptions): CloudSigner => {
  const cache = <T>(cloud: Cloud, fetch: Fetch<T>): CredentialCache<T> => {
    const options: CredentialCacheOptions = {
      limit,
      ...(now && { now }),
      timedOut: () => credentialFailure(cloud, transient('fetching them took too long')),
      threw: (error) => {
        const failure = credentialFailure(cloud, permanent('an internal error occurred'))
        report({ cloud, message: failure.message, detail: detailOf(error) })
        return failure
      },
    }
    return new CredentialCache(fetch, options)
  }
  const aws = cache('aws', awsCredentials({ dial, environment, report }))
  const google = perScope((scope) => cache('google', googleHeaders({ dial, environment, report }, scope)))
  const entra = perScope((scope) =>
    cache('entra', (signal) => entraToken({ dial, environment, report }, scope, signal)),
  )

  const signed: CloudSigner['sign'] = async (call, identity, signal) => {
    switch (identity.cloud) {
      case 'aws': {
        const credentials = await aws.get(signal)
        if (!credentials.ok) return credentials
        const headers = await awsHeaders(call, identity, credentials.value)
        if (!headers) return bad(fail('auth', NO_REGION, { unsent: true }))
        const { sessionToken } = credentials.value
        return good({ headers, secrets: sessionToken === undefined ? [] : [sessionToken] })
      }
      case 'google': {
        const headers = await google(identity.scope).get(signal)
        if (!headers.ok) return headers
        return good({ headers: headers.value, secrets: [withoutScheme(headers.value.authorization ?? '')] })
      }
      case 'entra': {
        const token = await entra(identity.scope).get(signal)
        if (!token.ok) return token
        return good({ headers: { authorization: `Bearer ${token.value}` }, secrets: [token.value] })
      }
      default:
        throw new Error(`unknown identity ${JSON.stringify(identity satisfies never)}`)
    }
  }

  return {
    sign: (call, identity, signal) =>
      signed(call, identity, signal).catch((error: unknown) => {
        const failure = credentialFailure(identity.cloud, permanent('the call could not be signed'))
        report({ cloud: identity.cloud, message: failure.message, detail: detailOf(error) })
        return bad(failure)
      }),
    refused: (identity) => cacheOf(identity).refused(),
    close: () => {
      for (const one of [aws, ...google.all(), ...entra.all()]) one.close()
    },
  }

  function cacheOf(identity: Identity): { refused(): void } {
    switch (identity.cloud) {
      case 'aws':
        return aws
      case 'google':
        return google(identity.scope)
      case 'entra':
        return entra(identity.scope)
      default:
        throw new Error(`unknown identity ${JSON.stringify(identity satisfies never)}`)
    }
  }
}

const NO_REGION = "The AWS region is unknown, so the call cannot be signed. Set the provider's region, or AWS_REGION."

const withoutScheme = (authorization: string): string => authorization.replace(/^Bearer /, '')

/** One value per scope. Scopes come from the provider files, so the map stays small. */
const perScope = <T>(make: (scope: string) => T): ((scope: string) => T) & { all(): Iterable<T> } => {
  const made = new Map<string, T>()
  const get = (scope: string): T => {
    const known = made.get(scope)
    if (known) return known
    const one = make(scope)
    made.set(scope, one)
    return one
  }
  return Object.assign(get, { all: () => made.values() })
}
