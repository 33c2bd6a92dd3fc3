import type { ProtocolName } from '../core/chat.ts'
import type { Instance, Wire } from '../core/provider.ts'

/**
 * The formats a request can be put in there for this model, the best for it first: the client's own, whose bytes pass, then
 * the others as the upstream prefers them. What does not fit into one may fit into the next.
 */
export const wiresFor = (client: ProtocolName, { speaks }: Instance, model: string): readonly Wire[] => {
  const named = speaks.filter(({ models }) => models?.test(model))
  const fit = named.length > 0 ? named : speaks.filter(({ models }) => models === undefined)
  const isOwn = ({ protocol }: Wire): boolean => protocol === client
  return fit.length < 2 ? fit : [...fit.filter(isOwn), ...fit.filter((wire) => !isOwn(wire))]
}

/** Whether what it has answered can be continued there, by its own memory. */
export const keepsResponses = ({ speaks }: Instance): boolean =>
  speaks.some(({ protocol, keepsNothing }) => protocol === 'openai-responses' && !keepsNothing)
