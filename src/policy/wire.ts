import type { ProtocolName } from '../core/chat.ts'
import type { Instance, Wire } from '../core/provider.ts'

/** The client's own format if the upstream speaks it: then bytes pass through. Otherwise the upstream's first, and we translate. */
export const wireFor = (client: ProtocolName, { speaks }: Instance): Wire | undefined =>
  speaks.find((wire) => wire.protocol === client) ?? speaks[0]
