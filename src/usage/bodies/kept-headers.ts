/**
 * Which headers of a call are kept. Only values of well-known names that cannot contain a credential are recorded, so an
 * unknown header needs no rule to stay out of the file.
 */
import { CLIENT_ADDRESS_HEADERS, CREDENTIAL_HEADERS } from '../../core/credential-headers.ts'
import type { HeaderLookup } from '../../core/headers.ts'

/** Header values by lower-case name. */
export type KeptHeaders = Readonly<Record<string, string>>

/** In place of a value that is not recorded. */
export const MASKED_HEADER = '[masked]'

/** Longest recorded value. */
const MAX_VALUE = 512
const MAX_HEADERS = 64

const SHOWN: readonly string[] = [
  ...['accept', 'accept-encoding', 'accept-language', 'cache-control', 'connection', 'content-encoding'],
  ...['content-length', 'content-type', 'date', 'expect', 'host', 'idempotency-key', 'origin'],
  ...['retry-after', 'retry-after-ms', 'server', 'traceparent', 'transfer-encoding', 'user-agent', 'vary', 'via'],
  ...['age', 'ratelimit', 'ratelimit-policy', 'x-title', 'x-should-retry', 'x-accel-buffering'],
  ...['request-id', 'x-request-id', 'cf-ray', 'x-envoy-upstream-service-time', 'x-amzn-requestid'],
  ...['openai-beta', 'openai-model', 'openai-organization', 'openai-processing-ms', 'openai-project', 'openai-version'],
  ...['anthropic-beta', 'anthropic-organization-id', 'anthropic-version'],
  ...['arch', 'async', 'helper-method', 'lang', 'os', 'package-version', 'retry-count', 'runtime', 'runtime-version']
    .map((name) => `x-stainless-${name}`)
    .concat('x-stainless-timeout'),
  ...['limit', 'remaining', 'reset'].flatMap((what) =>
    ['requests', 'tokens'].flatMap((unit) => [
      `x-ratelimit-${what}-${unit}`,
      `anthropic-ratelimit-${unit}-${what}`,
      ...(unit === 'tokens' ? ['input', 'output'].map((kind) => `anthropic-ratelimit-${kind}-${unit}-${what}`) : []),
    ]),
  ),
  ...[
    'attempts',
    'cache',
    'cost',
    'dropped',
    'idempotent',
    'limit',
    'metadata',
    'model',
    'provider',
    'tags',
    'trail',
  ].map((name) => `x-headgate-${name}`),
  ...['usage', 'warning'].map((name) => `x-headgate-${name}`),
]
const shown: ReadonlySet<string> = new Set(SHOWN)

/** Common headers with credentials, or of a network: their presence is shown. */
const HIDDEN: readonly string[] = [...CREDENTIAL_HEADERS, ...CLIENT_ADDRESS_HEADERS]

/** The headers of a block whose names are unknown: those that are well known. */
export const headersFrom = (headers: HeaderLookup): KeptHeaders => {
  const kept: Record<string, string> = {}
  for (const name of SHOWN) {
    const value = headers(name)
    if (value !== undefined) kept[name] = value.slice(0, MAX_VALUE)
  }
  for (const name of HIDDEN) if (headers(name) !== undefined) kept[name] = MASKED_HEADER
  return kept
}

/** All headers of a block by name, with the values of the well-known ones. */
export const headersOf = (headers: Readonly<Record<string, string>>): KeptHeaders =>
  Object.fromEntries(
    Object.entries(headers)
      .slice(0, MAX_HEADERS)
      .map(([written, value]) => {
        const name = written.toLowerCase()
        return [name, shown.has(name) ? value.slice(0, MAX_VALUE) : MASKED_HEADER]
      }),
  )

/** Bytes that headers need in memory, about. */
export const sizeOfHeaders = (headers: KeptHeaders): number =>
  Object.entries(headers).reduce((size, [name, value]) => size + name.length + value.length, 0)
