/** AWS: credentials by its own library's chain, requests signed with Signature Version 4. */
import type { DefaultProviderInit, defaultProvider } from '@aws-sdk/credential-provider-node'
import { bad, good } from '../../core/failure.ts'
import type { UpstreamCall } from '../../core/world.ts'
import type { Fetch } from './credential-cache.ts'
import { codeOf, detailOf, lasting, noSignIn, passing, type Tell, type Why } from './credential-errors.ts'
import { type Environment, lend } from './environment.ts'

export type AwsOptions = { readonly environment: Environment; readonly tell: Tell }

type Chain = ReturnType<typeof defaultProvider>

export type AwsCredentials = {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

/** Gets what the chain finds: environment, profile and SSO, web identity, container, instance; in AWS's own order. */
export const awsCredentials = ({ environment, tell }: AwsOptions): Fetch<AwsCredentials> => {
  let chain: Chain | null = null
  let tried: string[] = []
  const logger = {
    // The chain's last error says only that it is at its end; why each link had nothing is told to its log.
    debug: (...words: readonly unknown[]) => {
      const why = /(?:->|\(!\)) (.+)/s.exec(words.map(String).join(' '))?.[1]
      if (why !== undefined && tried.length < MOST_LINKS) tried.push(why)
    },
    info: () => {},
    error: () => {},
    warn: (...words: readonly unknown[]) =>
      tell({
        cloud: 'aws',
        message: 'The AWS library has a remark about the credentials.',
        detail: detailOf(new Error(words.map(String).join(' '))),
      }),
  }
  return async (signal) => {
    // The chain shares what is under way with everybody who asks later, so what hangs would hang for ever.
    const forget = () => {
      chain = null
    }
    signal.addEventListener('abort', forget, { once: true })
    try {
      await lend(environment)
      chain ??= await openChain(logger)
      tried = []
      // What is kept, and for how long, is decided outside; asked, the chain looks anew.
      const { accessKeyId, secretAccessKey, sessionToken, expiration } = await chain({ forceRefresh: true })
      const value = { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) }
      return good({ value, expires: expiration?.getTime() ?? Number.POSITIVE_INFINITY })
    } catch (error) {
      chain = null
      const failure = noSignIn('aws', reasonOf(error))
      const detail = [...new Set([...tried.map((words) => detailOf(new Error(words))), detailOf(error)])].join('; ')
      tell({ cloud: 'aws', message: failure.message, detail })
      return bad(failure)
    } finally {
      signal.removeEventListener('abort', forget)
    }
  }
}

/** Links of the chain whose trouble is told. */
const MOST_LINKS = 8

const openChain = async (logger: DefaultProviderInit['logger']): Promise<Chain> => {
  const { defaultProvider } = await import('@aws-sdk/credential-provider-node')
  // A profile that was changed is read again when its credentials are.
  return defaultProvider({ ...(logger && { logger }), ignoreCache: true })
}

const reasonOf = (error: unknown): Why => {
  const code = codeOf(error)
  if (code?.startsWith('E') && code !== 'ENOENT') return passing('the server that hands them out could not be reached')
  const none = error instanceof Error && error.message.startsWith('Could not load credentials from any providers')
  return lasting(none ? 'none was found that can be used' : 'what was found cannot be used')
}

/** Bedrock's names of regions, where a host name has one: `bedrock-runtime.eu-west-1.amazonaws.com`. */
const regionIn = (host: string): string | undefined =>
  host.split('.').find((label) => /^[a-z]{2,4}(?:-[a-z]+){1,3}-[0-9]{1,2}$/.test(label))

export type AwsScope = { readonly service: string; readonly region: string }

/** The keys made of a secret for a day, region and service. */
const derived = new WeakMap<AwsCredentials, Map<string, ArrayBuffer>>()

/** `datetime`: as in `x-amz-date`; now, if not given. Undefined: the region is not known. */
export const awsHeaders = async (
  call: Pick<UpstreamCall, 'method' | 'url' | 'headers' | 'body'>,
  scope: AwsScope,
  credentials: AwsCredentials,
  datetime?: string,
): Promise<Readonly<Record<string, string>> | undefined> => {
  const region = scope.region || regionIn(new URL(call.url).hostname)
  if (region === undefined) return undefined
  const { AwsV4Signer } = await import('aws4fetch')
  const cache = derived.get(credentials) ?? new Map<string, ArrayBuffer>()
  derived.set(credentials, cache)
  const type = call.headers['content-type']
  const signed = await new AwsV4Signer({
    method: call.method,
    url: call.url,
    // Host, what begins with x-amz-, and the media type; a proxy may change the others on their way.
    headers: type === undefined ? {} : { 'content-type': type },
    allHeaders: true,
    ...(call.body !== undefined && { body: call.body }),
    ...credentials,
    service: scope.service,
    region,
    cache,
    ...(datetime !== undefined && { datetime }),
  }).sign()
  return Object.fromEntries([...signed.headers].filter(([name]) => name !== 'content-type'))
}
