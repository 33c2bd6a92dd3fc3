/** Signs calls in by the identity of the machine the gateway runs on. Nothing here is loaded or asked before the first such call. */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import type { Identity } from '../../core/provider.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'
import { awsCredentials, awsHeaders } from './aws.ts'
import { type Fetch, Kept, type KeptOptions } from './credential-cache.ts'
import { type Cloud, detailOf, lasting, noSignIn, passing, type Tell } from './credential-errors.ts'
import { entraToken } from './entra.ts'
import type { Environment } from './environment.ts'
import { googleHeaders } from './google.ts'

export type SignIn = {
  readonly headers: Readonly<Record<string, string>>
  /** What nobody may read in the answer. */
  readonly secrets: readonly string[]
}

export type Identities = {
  /** Never throws. The signal ends the waiting. */
  readonly sign: (call: UpstreamCall, identity: Identity, signal: AbortSignal) => Promise<Outcome<SignIn>>
  /** An upstream did not accept what this identity was signed in with. */
  readonly refused: (identity: Identity) => void
  /** Ends what is under way. */
  readonly close: () => void
}

export type IdentitiesOptions = {
  /** The way to the token servers we ask ourselves. */
  readonly dial: Dial
  readonly environment: Environment
  readonly tell: Tell
  /** ms a credential may take to come. */
  readonly limit?: number
  /** ms since 1970. */
  readonly now?: () => number
}

const LIMIT = 10_000

export const openIdentities = ({ dial, environment, tell, limit = LIMIT, now }: IdentitiesOptions): Identities => {
  const kept = <T>(cloud: Cloud, fetch: Fetch<T>): Kept<T> => {
    const options: KeptOptions = {
      limit,
      ...(now && { now }),
      late: () => noSignIn(cloud, passing('it took too long')),
      broke: (error) => {
        const failure = noSignIn(cloud, lasting('for a reason of its own'))
        tell({ cloud, message: failure.message, detail: detailOf(error) })
        return failure
      },
    }
    return new Kept(fetch, options)
  }
  const aws = kept('aws', awsCredentials({ environment, tell }))
  const google = perScope((scope) => kept('google', googleHeaders({ environment, tell }, scope)))
  const entra = perScope((scope) => kept('entra', (signal) => entraToken({ dial, environment, tell }, scope, signal)))

  const signed: Identities['sign'] = async (call, identity, signal) => {
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
        return good({ headers: headers.value, secrets: [bare(headers.value.authorization ?? '')] })
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
        const failure = noSignIn(identity.cloud, lasting('the call could not be signed'))
        tell({ cloud: identity.cloud, message: failure.message, detail: detailOf(error) })
        return bad(failure)
      }),
    refused: (identity) => keptOf(identity).refused(),
    close: () => {
      for (const one of [aws, ...google.all(), ...entra.all()]) one.close()
    },
  }

  function keptOf(identity: Identity): { refused(): void } {
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

const NO_REGION =
  "The call cannot be signed for AWS: the region is not known. Set the provider's region, or AWS_REGION."

const bare = (authorization: string): string => authorization.replace(/^Bearer /, '')

/** Scopes are the providers' own few. */
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
