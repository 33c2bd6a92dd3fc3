/** Headers of a provider entry: those of every request, and those of clients that are forwarded. */
import { CLIENT_ADDRESS_HEADERS, CREDENTIAL_HEADERS, GATEWAY_CREDENTIAL_HEADERS } from '../core/credential-headers.ts'
import { HEADER_NAME } from '../core/headers.ts'
import type { Provider } from '../core/provider.ts'
import { Secret } from '../core/secret.ts'
import { upstreamProtocols } from '../protocols/index.ts'
import { type Problem, quote } from './problem.ts'

type HeaderPlaceOf = (path: readonly PropertyKey[]) => { readonly name: string; readonly value: string }

export type HeadersPlace = {
  /** The path of the entry in the file. */
  readonly path: readonly (string | number)[]
  readonly provider: Provider
  readonly placeOf: HeaderPlaceOf
}

/** Headers that belong to a connection or describe the body (RFC 9110, sections 7.6 and 8; RFC 9112). */
export const MESSAGE_HEADERS = [
  ...[
    'host',
    'connection',
    'keep-alive',
    'proxy-connection',
    'proxy-authorization',
    'te',
    'trailer',
    'upgrade',
    'expect',
  ],
  ...['transfer-encoding', 'content-length', 'content-type', 'content-encoding', 'accept', 'accept-encoding'],
]

/** Headers with which clients present keys of the gateway, or name themselves. They never leave it. */
const OF_CLIENT: ReadonlySet<string> = new Set([...GATEWAY_CREDENTIAL_HEADERS, ...CLIENT_ADDRESS_HEADERS, 'via'])
const OF_CLIENT_PREFIX = /^x-(?:forwarded|headgate)-/

/** Printable ASCII without blanks at the ends. */
export const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]{0,8190}[\x21-\x7e])?$/

/** Whether the gateway writes the header itself for this provider: for the message, its formats and the credentials. */
const isWritten = (name: string, { auth, speaks, alsoSpeaks = [], headers = {} }: Provider): boolean => {
  const wires = [...speaks, ...alsoSpeaks]
  const keys = [auth, ...wires.map((wire) => wire.auth ?? auth)].flatMap((one) => (one === 'none' ? [] : [one.header]))
  const ofFormats = wires.flatMap(({ protocol }) => Object.keys(upstreamProtocols[protocol].headers ?? {}))
  return (
    [...MESSAGE_HEADERS, ...keys, ...ofFormats, ...Object.keys(headers)].some((one) => one.toLowerCase() === name) ||
    name.startsWith('x-amz-')
  )
}

const nameProblem = (name: string, provider: Provider): Pick<Problem, 'found' | 'allowed'> | null => {
  if (!HEADER_NAME.test(name)) return { found: quote(name), allowed: 'the name of a header' }
  return isWritten(name, provider)
    ? {
        found: `the header ${quote(name)}, which the gateway sets itself`,
        allowed: 'other headers; the credential belongs to keys',
      }
    : null
}

/** The headers of every request, by name in lower case. */
export const headersFrom = (
  entries: Readonly<Record<string, string>>,
  { path, provider, placeOf }: HeadersPlace,
): { readonly headers: Readonly<Record<string, Secret>>; readonly problems: readonly Problem[] } => {
  const headers: Record<string, Secret> = {}
  const problems: Problem[] = []
  for (const [written, value] of Object.entries(entries)) {
    const at = [...path, 'headers', written]
    const name = written.toLowerCase()
    const problem = nameProblem(name, provider)
    const refuse = (where: string, found: string, allowed: string) =>
      problems.push({ where, what: [...path, 'headers'].join('.'), found, allowed })
    if (problem) refuse(placeOf(at).name, problem.found, problem.allowed)
    else if (Object.hasOwn(headers, name))
      refuse(placeOf(at).name, `the header ${quote(name)} twice`, 'each header once')
    else if (!HEADER_VALUE.test(value))
      refuse(
        placeOf(at).value,
        `a value of ${quote(name)} with line breaks or other than ASCII characters, or of more than 8,192`,
        'printable ASCII characters',
      )
    else headers[name] = new Secret(value)
  }
  return { headers, problems }
}

/** The client headers that are forwarded instead of the provider's own list, in lower case. */
export const forwardedFrom = (
  entries: readonly string[],
  { path, provider, placeOf }: HeadersPlace,
): { readonly names: readonly string[]; readonly problems: readonly Problem[] } => {
  const names = entries.map((name) => name.toLowerCase())
  const problems = names.flatMap((name, index): readonly Problem[] => {
    const problem =
      OF_CLIENT.has(name) || OF_CLIENT_PREFIX.test(name)
        ? {
            found: `the header ${quote(name)}, which may contain a key of the gateway or name the client`,
            allowed: 'other headers; a fixed value belongs to headers',
          }
        : nameProblem(name, provider)
    const at = [...path, 'forwardHeaders', index]
    return problem ? [{ where: placeOf(at).value, what: [...path, 'forwardHeaders'].join('.'), ...problem }] : []
  })
  return { names: [...new Set(names)], problems }
}

/** The problems of the headers that a target adds to requests. */
export const headerProblems = (headers: Readonly<Record<string, string>>, given: HeadersPlace): readonly Problem[] => [
  ...headersFrom(headers, given).problems,
  ...credentialProblems(headers, given),
]

/** Headers with credentials belong to the provider, which keeps them secret. */
const credentialProblems = (
  headers: Readonly<Record<string, string>>,
  { path, placeOf }: HeadersPlace,
): readonly Problem[] =>
  Object.keys(headers)
    .filter((name) => CREDENTIAL_HEADERS.includes(name.toLowerCase()))
    .map((name) => ({
      where: placeOf([...path, 'headers', name]).name,
      what: [...path, 'headers'].join('.'),
      found: `the header ${quote(name)}, which has credentials`,
      allowed: 'other headers; those with credentials belong to `keys` or `headers` of the provider',
    }))
