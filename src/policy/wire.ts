import type { ProtocolName } from '../core/chat.ts'
import type { Instance, Wire } from '../core/provider.ts'

/**
 * The client's own format if the upstream speaks it with this model: then bytes pass through. Otherwise the upstream's
 * first for the model, and we translate. Undefined: it is spoken to in none that this model understands.
 */
export const wireFor = (client: ProtocolName, { speaks }: Instance, model: string): Wire | undefined => {
  const own = speaks.filter(({ models }) => models?.test(model))
  const fit = own.length > 0 ? own : speaks.filter(({ models }) => models === undefined)
  return fit.find((wire) => wire.protocol === client) ?? fit[0]
}
