/** AWS credentials from AWS's own provider chain, and request signing with Signature Version 4. */

import type { DefaultProviderInit, defaultProvider } from '@aws-sdk/credential-provider-node'
import { wholeBody } from '../../core/encoded-text.ts'
import { bad, good } from '../../core/failure.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'
import type { Fetch } from './credential-cache.ts'
import {
  codeOf,
  credentialFailure,
  detailOf,
  missingPackage,
  permanent,
  type Reason,
  type ReportError,
  transient,
} from './credential-errors.ts'
import { type Environment, exportCloudVariables } from './environment.ts'
import { awsHandlerOver } from './library-requests.ts'

export type AwsOptions = { readonly dial: Dial; readonly environment: Environment; readonly report: ReportError }

type Chain = ReturnType<typeof defaultProvider>

export type AwsCredentials = {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

/** Fetches credentials: environment, profile and SSO, web identity, container, instance, in AWS's order. */
export const awsCredentials = ({ dial, environment, report }: AwsOptions): Fetch<AwsCredentials> => {
  let chain: Chain | null = null
  let tried: string[] = []
  const logger = {
    // The chain's final error names no cause; the reason of each provider is only in the debug log.
    debug: (...words: readonly unknown[]) => {
      const why = /(?:->|\(!\)) (.+)/s.exec(words.map(String).join(' '))?.[1]
      if (why !== undefined && tried.length < MAX_REASONS) tried.push(why)
    },
    info: () => {},
    error: () => {},
    warn: (...words: readonly unknown[]) =>
      report({
        cloud: 'aws',
        message: 'The AWS library logged a warning about the credentials.',
        detail: detailOf(new Error(words.map(String).join(' '))),
      }),
  }
  return async (signal) => {
    // The chain shares a request in flight with later callers. Drop the chain on abort, so a hanging request is not reused.
    const forget = () => {
      chain = null
    }
    signal.addEventListener('abort', forget, { once: true })
    try {
      await exportCloudVariables(environment)
      chain ??= await openChain(dial, logger)
      tried = []
      // Caching is done by CredentialCache.
      const { accessKeyId, secretAccessKey, sessionToken, expiration } = await chain({ forceRefresh: true })
      const value = { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) }
      return good({ value, expires: expiration?.getTime() ?? Number.POSITIVE_INFINITY })
    } catch (error) {
      chain = null
      const failure = credentialFailure('aws', reasonOf(error))
      const detail = [...new Set([...tried.map((words) => detailOf(new Error(words))), detailOf(error)])].join('; ')
      report({ cloud: 'aws', message: failure.message, detail })
      return bad(failure)
    } finally {
      signal.removeEventListener('abort', forget)
    }
  }
}

/** Provider reasons kept for the log. */
const MAX_REASONS = 8

const openChain = async (dial: Dial, logger: DefaultProviderInit['logger']): Promise<Chain> => {
  const { defaultProvider } = await import('@aws-sdk/credential-provider-node')
  // Read profile files again with every fetch.
  const clientConfig = { requestHandler: awsHandlerOver(dial) }
  return defaultProvider({
    ...(logger && { logger }),
    ignoreCache: true,
    clientConfig,
    parentClientConfig: clientConfig,
  })
}

const reasonOf = (error: unknown): Reason => {
  const missing = missingPackage('@aws-sdk/credential-provider-node', error)
  if (missing) return missing
  const code = codeOf(error)
  if (code?.startsWith('E') && code !== 'ENOENT') return transient('the credentials server is unreachable')
  const none = error instanceof Error && error.message.startsWith('Could not load credentials from any providers')
  return permanent(none ? 'no usable credentials were found' : 'the credentials found are not usable')
}

/** The region in a Bedrock host name such as `bedrock-runtime.eu-west-1.amazonaws.com`. */
const regionIn = (host: string): string | undefined =>
  host.split('.').find((label) => /^[a-z]{2,4}(?:-[a-z]+){1,3}-[0-9]{1,2}$/.test(label))

export type AwsScope = { readonly service: string; readonly region: string }

/** Signing keys, derived per day, region and service. */
const derived = new WeakMap<AwsCredentials, Map<string, ArrayBuffer>>()

/** Signs a request. `datetime` is for tests, as in `x-amz-date`. Undefined if the region is unknown. */
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
  // Signs host, x-amz-* and content-type only: proxies may change other headers.
  const headers = Object.fromEntries(
    Object.entries(call.headers).filter(([name]) => name === 'content-type' || name.startsWith('x-amz-')),
  )
  const signed = await new AwsV4Signer({
    method: call.method,
    url: call.url,
    headers,
    allHeaders: true,
    ...(call.body !== undefined && { body: wholeBody(call.body) }),
    ...credentials,
    service: scope.service,
    region,
    cache,
    ...(datetime !== undefined && { datetime }),
  }).sign()
  return Object.fromEntries([...signed.headers].filter(([name]) => name !== 'content-type'))
}
