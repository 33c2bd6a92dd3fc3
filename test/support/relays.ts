/** Relayed endpoints in tests of all routes of models. */
import type { Provider } from '../../src/core/provider.ts'
import { RELAY_ROWS } from '../../src/core/relay.ts'
import { respondWith } from './gateway.ts'
import type { ScriptedCall } from './still-world.ts'

/** A provider that has them all. */
export const ALL_RELAYS: NonNullable<Provider['relays']> = Object.fromEntries(
  RELAY_ROWS.map(([name]) => [name, { models: ['m'] }]),
)

/** A body for each. The handler of a form reads JSON as well; the forms themselves have tests of their own. */
export const RELAY_BODIES: { readonly [name: string]: (model: string) => object } = Object.fromEntries(
  RELAY_ROWS.map(([name]) => [name, (model: string) => ({ model, input: 'hi' })]),
)

/** Responds with a file where the endpoint does so. */
export const respondWithFile = (asked: ScriptedCall): boolean => {
  const isFile = RELAY_ROWS.some(([, { answer, path }]) => answer === 'bytes' && asked.url.endsWith(path))
  if (isFile) respondWith.raw(asked, 200, { 'content-type': 'audio/mpeg' }, 'yes')
  return isFile
}
