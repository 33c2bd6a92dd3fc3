import type { ProtocolName } from '../core/chat.ts'
import type { Instance, Wire } from '../core/provider.ts'

/**
 * The formats a request can be put in there for this model, the best for it first: the client's own, whose bytes pass, then
 * the others as the upstream prefers them. What does not fit into one may fit into the next.
 * `lacking`: formats it was found not to have at this address; the last that is left is asked for all the same.
 */
export const wiresFor = (
  client: ProtocolName,
  { speaks }: Instance,
  model: string,
  lacking: ReadonlySet<ProtocolName> = NONE,
): readonly Wire[] => {
  const named = speaks.filter(({ models }) => models?.test(model))
  const known = named.length > 0 ? named : speaks.filter(({ models }) => models === undefined)
  const there = lacking.size === 0 ? known : known.filter(({ protocol }) => !lacking.has(protocol))
  const fit = there.length > 0 ? there : known
  const isOwn = ({ protocol }: Wire): boolean => protocol === client
  return fit.length < 2 ? fit : [...fit.filter(isOwn), ...fit.filter((wire) => !isOwn(wire))]
}

const NONE: ReadonlySet<ProtocolName> = new Set()

/** Whether what it has answered can be continued there, by its own memory. */
export const keepsResponses = ({ speaks }: Instance): boolean =>
  speaks.some(({ protocol, keepsNothing }) => protocol === 'openai-responses' && !keepsNothing)
