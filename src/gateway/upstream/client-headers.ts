/** Headers of the client that an upstream request carries. */
import type { Config } from '../../core/config.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { memoizeBy } from '../../core/memoize-by.ts'
import type { Instance } from '../../core/provider.ts'
import { conditionHeaders } from '../../policy/routing/when.ts'

/** Client headers forwarded to every provider of the same protocol. They do not identify the client. */
const OF_PROTOCOL: readonly { readonly name: string; readonly isValid: (value: string) => boolean }[] = [
  { name: 'anthropic-beta', isValid: () => true },
  { name: 'openai-beta', isValid: () => true },
  // Earlier versions use another stream format, which is not supported.
  {
    name: 'anthropic-version',
    isValid: (value) => /^20\d\d-\d\d-\d\d$/.test(value) && value >= '2023-06-01',
  },
]

/** Values that every server accepts. */
const VALUE = /^[\x20-\x7e]{1,2048}$/

/**
 * The headers of the client for an instance; null: none. `isSameProtocol`: the upstream request has the client's protocol.
 * What the operator has set for the instance is never replaced.
 */
export const clientHeadersFor = (
  { headers: own, forwardHeaders = NONE }: Instance,
  headers: HeaderLookup,
  isSameProtocol: boolean,
): Readonly<Record<string, string>> | null => {
  let found: Record<string, string> | null = null
  if (isSameProtocol)
    for (const { name, isValid } of OF_PROTOCOL) {
      const value = headers(name)
      if (value !== undefined && isValid(value) && !isSet(own, name)) found = withHeader(found, name, value)
    }
  for (const name of forwardHeaders) {
    const value = headers(name)
    if (value !== undefined && isPrintable(value) && !isSet(own, name)) found = withHeader(found, name, value)
  }
  return found
}

/** Whether the operator has set the header for the instance. */
const isSet = (own: Instance['headers'], name: string): boolean => own !== undefined && Object.hasOwn(own, name)

/** Adds to the object, which is made for the first header. */
const withHeader = (found: Record<string, string> | null, name: string, value: string): Record<string, string> => {
  const headers = found ?? {}
  headers[name] = value
  return headers
}

/**
 * Headers of the client that the provider reads and that are not forwarded, as paths: the operator has set another value, or
 * forwards none. Headers for other vendors are not listed.
 */
export const withheldHeaders = (
  { provider, headers: own, forwardHeaders = NONE }: Instance,
  headers: HeaderLookup,
): readonly string[] => {
  const { forwardHeaders: read } = provider
  if (!read) return NONE
  let withheld: string[] | null = null
  for (const name of read) {
    const value = headers(name)
    if (value === undefined || forwardHeaders.includes(name) || own?.[name]?.reveal() === value) continue
    withheld ??= []
    withheld.push(`headers.${name}`)
  }
  return withheld ?? NONE
}

const NONE: readonly string[] = []
const isPrintable = (value: string): boolean => VALUE.test(value)

/** Teams with routes have configurations of their own. */
const namesOf = memoizeBy((config: Config): readonly string[] => [
  ...new Set([
    ...OF_PROTOCOL.map(({ name }) => name),
    ...config.instances.flatMap(({ forwardHeaders = NONE }) => forwardHeaders).toSorted(),
    ...conditionHeaders(config),
  ]),
])

/**
 * The values of all headers that may be forwarded, or that conditions of targets read: requests that differ in one of them are not
 * equal.
 */
export const forwardedValues = (config: Config, headers: HeaderLookup): readonly (string | null)[] =>
  namesOf(config).map((name) => headers(name) ?? null)
