/** Response headers about the end of the model that a client has named. */
import type { Catalogue } from '../../core/config.ts'
import type { Plan } from '../../core/target.ts'
import { printable, type Recorder } from '../call/recorder.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'

type EndSources = { readonly catalogue: Catalogue; readonly health: Pick<UpstreamHealth, 'retirements'> }

/**
 * Adds `sunset` (RFC 8594), `deprecation` (RFC 9745: since when it is known) and `x-headgate-successor`, if the client named the
 * model itself. The targets of a route are the operator's.
 */
export const announceRetirement = (
  { catalogue, health }: EndSources,
  { by, candidates: [first] }: Plan,
  recorder: Recorder,
): void => {
  if (!first || by === 'route' || by === 'default') return
  const end = health.retirements.of(catalogue, first)
  if (!end) return
  const { at, known, successor } = end
  recorder.addHeaders({
    sunset: new Date(at).toUTCString(),
    deprecation: `@${Math.floor(known / 1000)}`,
    ...(successor !== undefined && { 'x-headgate-successor': printable(`${first.instance.id}/${successor}`) }),
  })
}
