/** What the entry of a target changes in requests. */
import { CREDENTIAL_HEADERS } from '../core/credential-headers.ts'
import type { TargetOverride } from '../core/target-override.ts'
import type { RouteEntry } from './file-schema.ts'
import { type Problem, quote } from './problem.ts'
import { type HeadersPlace, headersFrom } from './provider-headers.ts'

type TargetEntry = Exclude<RouteEntry['targets'][number], string>

/** The override of an entry; undefined: it changes nothing. */
export const overrideFrom = (
  { set, default: defaults, remove, extra, timeout, retries, headers, betas }: TargetEntry,
  given: HeadersPlace,
): { readonly override: TargetOverride | undefined; readonly problems: readonly Problem[] } => {
  const override: TargetOverride = {
    ...(set && { set }),
    ...(defaults && { default: defaults }),
    ...(remove && { remove }),
    ...(extra && { extra }),
    ...(timeout && { timeout }),
    ...(retries !== undefined && { retries }),
    ...(headers && {
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
    }),
    ...(betas && { betas }),
  }
  const written = headers ?? {}
  const problems = [...headersFrom(written, given).problems, ...credentialProblems(written, given)]
  return { override: Object.keys(override).length === 0 ? undefined : override, problems }
}

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
