import type { HeaderLookup } from '../../core/headers.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import type { Settings } from '../../core/settings.ts'

/** The time in ms that a request may take: the setting, or less if its client gives up earlier. 0: unlimited. */
export const requestTimeout = (
  { deadline }: Pick<ClientProtocol, 'deadline'>,
  headers: HeaderLookup,
  { timeout: { request } }: Settings,
): number => {
  const wanted = deadline?.(headers)
  return wanted === undefined ? request : request === 0 ? wanted : Math.min(wanted, request)
}
