/** Takes a provider's key out of whatever the provider says: some quote it in their errors. Patterns miss keys of unusual form; this one is known. */
import type { Failure } from '../core/failure.ts'
import type { ProviderKey } from '../core/provider.ts'

/** Shorter ones are placeholders for servers that ask for no key, and would be found in ordinary words. */
const SHORTEST = 5

export const redacted = (failure: Failure, { secret }: ProviderKey): Failure => {
  const value = secret?.reveal() ?? ''
  if (value.length < SHORTEST || !JSON.stringify(failure).includes(JSON.stringify(value).slice(1, -1))) return failure
  const clean = (text: string) => text.replaceAll(value, '[key]')
  const { upstream, param } = failure
  return {
    ...failure,
    message: clean(failure.message),
    ...(param !== undefined && { param: clean(param) }),
    ...(upstream && {
      upstream: Object.fromEntries(Object.entries(upstream).map(([name, text]) => [name, clean(text)])),
    }),
  }
}
