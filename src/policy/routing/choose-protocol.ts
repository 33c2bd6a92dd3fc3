import type { ProtocolName } from '../../core/chat.ts'
import type { Instance, ProtocolSupport } from '../../core/provider.ts'

/**
 * The formats a request can be put in there for this model, the best for it first: the client's own, whose bytes pass, then
 * the others as the upstream prefers them. What does not fit into one may fit into the next.
 * `lacking`: formats it was found not to have at this address; the last remaining one is still used.
 */
export const protocolsInOrder = (
  client: ProtocolName,
  { speaks }: Instance,
  model: string,
  lacking: ReadonlySet<ProtocolName> = NONE,
): readonly ProtocolSupport[] => {
  const { supports, byModel } = ownFirst(client, speaks)
  if (!byModel && lacking.size === 0) return supports
  const named = supports.filter(({ models }) => models?.test(model))
  const known = named.length > 0 ? named : supports.filter(({ models }) => models === undefined)
  const there = known.filter(({ protocol }) => !lacking.has(protocol))
  return there.length > 0 ? there : known
}

const NONE: ReadonlySet<ProtocolName> = new Set()

/** `byModel`: not every model is spoken of in each. */
type OrderedProtocols = { readonly supports: readonly ProtocolSupport[]; readonly byModel: boolean }

/** What an instance speaks stays the same, and every attempt asks. */
const ownFirst = (client: ProtocolName, speaks: readonly ProtocolSupport[]): OrderedProtocols => {
  const known = ordered.get(speaks) ?? new Map<ProtocolName, OrderedProtocols>()
  const before = known.get(client)
  if (before) return before
  const isOwn = ({ protocol }: ProtocolSupport): boolean => protocol === client
  const supports = [...speaks.filter(isOwn), ...speaks.filter((wire) => !isOwn(wire))]
  const made = { supports, byModel: speaks.some(({ models }) => models !== undefined) }
  ordered.set(speaks, known.set(client, made))
  return made
}
const ordered = new WeakMap<readonly ProtocolSupport[], Map<ProtocolName, OrderedProtocols>>()

/** Whether what it has answered can be continued there, by its own memory. */
export const supportsStoredResponses = ({ speaks }: Instance): boolean =>
  speaks.some(({ protocol, stateless }) => protocol === 'openai-responses' && !stateless)
