/** Where requests to relayed endpoints may go. */
import { REALTIME, RELAY_ROWS, type RelayName } from '../../core/relay.ts'
import { draftFor } from './plan-ability.ts'

const draftOf = (name: RelayName | typeof REALTIME) =>
  draftFor({
    name,
    modelsOf: ({ relays }) => relays?.[name]?.models,
    // The default is the first of the provider's: names of configured models do not show what they are for.
    isName: () => false,
    remedy: 'The table in /docs/providers shows which do; a server of your own does too (`my-server/MODEL`).',
  })

/** How the targets of a session of the Realtime API are planned. */
export const realtimeDraft = draftOf(REALTIME)

/** How the targets of each endpoint are planned. */
export const relayDrafts = Object.fromEntries(
  RELAY_ROWS.map(([name]) => [name, draftOf(name)]),
  // Every endpoint has one.
) as { readonly [name in RelayName]: ReturnType<typeof draftFor> }
