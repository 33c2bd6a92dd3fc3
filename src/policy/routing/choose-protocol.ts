/** Which of a provider's protocols a request is sent in. */
import type { ProtocolName } from '../../core/chat.ts'
import type { UpstreamProtocol } from '../../core/protocol.ts'
import type { Instance, ProtocolSupport } from '../../core/provider.ts'

/**
 * The protocols of an instance for a model, best first: the client's own, which is passed through, then the others in the
 * provider's order. A request that does not fit one protocol may fit the next. `missing`: protocols that this address was
 * found not to support; if all are missing, they are returned nevertheless.
 */
export const protocolsInOrder = (
  client: ProtocolName,
  { speaks }: Instance,
  model: string,
  missing: ReadonlySet<ProtocolName> = NONE,
): readonly ProtocolSupport[] => {
  const { supports, byModel } = ownFirst(client, speaks)
  if (!byModel && missing.size === 0) return supports
  const named = supports.filter(({ models }) => models?.test(model))
  const known = named.length > 0 ? named : supports.filter(({ models }) => models === undefined)
  const supported = known.filter(({ protocol }) => !missing.has(protocol))
  return supported.length > 0 ? supported : known
}

const NONE: ReadonlySet<ProtocolName> = new Set()

/** `byModel`: some protocols are limited to certain models. */
type OrderedProtocols = { readonly supports: readonly ProtocolSupport[]; readonly byModel: boolean }

/** Cached, because the protocols of an instance do not change and every attempt needs them. */
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

/** Whether the provider stores answers in this format, so that a later request can continue one by its ID. */
export const storesAnswersIn = ({ name, storesAnswers }: UpstreamProtocol, { speaks }: Instance): boolean =>
  storesAnswers === true && speaks.some(({ protocol, stateless }) => protocol === name && !stateless)
