/** Checks that each attempt is permitted when it begins: by its request, the settings, the budgets and the attempts before it. */
import { deploymentId, modelId, type Target } from '../../src/core/target.ts'
import type { UpstreamCall } from '../../src/core/world.ts'
import type { Call } from './client.ts'
import { MAX_LATENESS } from './clock.ts'
import { type Dialed, isLeft, isProbe } from './dialed.ts'
import type { SimState } from './state.ts'

/** Tokens: what upstreams state when a prompt is too long. */
const STATED_WINDOW = 8_000
/** ms after which another target may be tried beside a probe. */
const SLOW_PROBE = 1_000

export class AttemptChecks {
  /** Attempts beside another of their request, except beside probes. */
  hedges = 0
  /** First choices among equal healthy keys: their number, and the index chosen. */
  readonly shares: [keys: number, chosen: number][] = []
  readonly #state: SimState

  constructor(state: SimState) {
    this.#state = state
  }

  /** Checks that this attempt is permitted now. */
  check(dial: Dialed, call: Call | undefined, { url }: UpstreamCall): void {
    const { watch, seen, clock, isDraining } = this.#state
    const { claim } = dial
    if (!call) return watch.breach(14, `a call without a request: ${url}`)
    const name = `request ${call.number}`
    const target = claim?.target
    const isTarget =
      target?.candidate.instance.id === dial.provider &&
      target.key.id === dial.key &&
      target.candidate.model === dial.model
    if (!claim || !target || !isTarget)
      return watch.breach(14, `${name} calls ${dial.provider} ${dial.key} ${dial.model} without a permit`)
    const { now } = clock
    const { settings, reply } = call
    // A continuation begins after content by design.
    if (reply.content && !settings.stream.continue) watch.breach(4, `${name} tries ${dial.tag} after content was sent`)
    if (reply.over && !call.shareable) watch.breach(4, `${name} tries ${dial.tag} after its response ended`)
    if (call.goneAt !== null && !call.shareable)
      watch.breach(4, `${name} tries ${dial.tag} after its client disconnected`)
    if (isDraining) watch.breach(4, `${name} tries ${dial.tag} after the shutdown`)
    const { request } = settings.timeout
    if (request > 0 && now >= call.at + request + MAX_LATENESS)
      watch.breach(4, `${name} tries ${dial.tag} after its deadline`)

    const isRejectedKey = ({ script, sent }: Dialed) =>
      sent && (script.meaning === 'auth' || script.meaning === 'quota')
    const counted = call.dials.filter((other) => !isRejectedKey(other))
    if (counted.length >= settings.retry.maxAttempts)
      watch.breach(1, `${name} tries ${dial.tag} after ${counted.length} of ${settings.retry.maxAttempts} attempts`)
    const id = deploymentId(target)
    if (call.dials.some((other) => other.claim && deploymentId(other.claim.target) === id)) {
      call.repeated++
      if (call.repeated > 1) watch.breach(1, `${name} tries ${id} again, which is its second retry`)
    }
    const concurrent = call.dials.filter(
      (other) => other.played && !other.played.over && !other.finished && !isLeft(other),
    )
    dial.beside.push(...concurrent)
    for (const other of concurrent) other.beside.push(dial)
    const [only] = concurrent
    if (concurrent.length === 1 && only && isProbe(only)) {
      seen.add('hedge of a probe')
      if (now < only.at + SLOW_PROBE)
        watch.breach(1, `${name} tries ${dial.tag} while the probe ${only.tag} is not slow`)
    } else if (concurrent.length > 0) {
      this.hedges++
      if (settings.hedge.percent === 0 || concurrent.length > 1 || concurrent[0]?.provider === dial.provider)
        watch.breach(1, `${name} tries ${dial.tag} while ${concurrent.map(({ tag }) => tag).join(' and ')}`)
    }
    for (const other of call.dials) {
      const { meaning } = other.script
      if (!other.sent) continue
      if (meaning === 'policy') watch.breach(5, `${name} continues after ${meaning}`)
      if (meaning === 'context' && !this.#mayFit(other.claim?.target, target))
        watch.breach(5, `${name} continues after ${meaning}`)
    }
    const again = (other: Dialed) =>
      other.provider === dial.provider && other.model === dial.model && !isRejectedKey(other)
    if (call.dials.some(again)) {
      const tries = watch.retries.tries(target.candidate)
      tries.made++
      if (tries.made > tries.granted)
        watch.breach(12, `${name} retries at ${dial.provider} ${dial.model} beyond the retry budget`)
    }
    if (call.dials.length === 0) this.#firstChoice(target, settings.keyStrategy)
    call.dials.push(dial)
  }

  /** Another model whose window is unknown, or larger than the one that the refusal stated. */
  #mayFit(before: Target | undefined, { candidate }: Target): boolean {
    const window = this.#state.setup.catalogue(candidate.instance.provider.name, candidate.model)?.contextWindow
    const isOther = modelId(candidate) !== (before && modelId(before.candidate))
    return isOther && (window === undefined || window > STATED_WINDOW)
  }

  /** Counts which of several equal keys a request tries first. */
  #firstChoice({ candidate: { instance }, key }: Target, strategy: string): void {
    const { keys } = instance
    const { troubled, circuits } = this.#state.watch
    if (keys.length < 2 || strategy !== 'spread' || keys.some(({ weight }) => weight !== keys[0]?.weight)) return
    const isOpen = (id: string) => circuits.get(id)?.at === 'open'
    const isTroubled = keys.some(({ id }) => isOpen(`${instance.id} ${id} m0`) || isOpen(`${instance.id} ${id} m1`))
    if (isTroubled || troubled.size > 0) return
    this.shares.push([keys.length, keys.findIndex(({ id }) => id === key.id)])
  }
}
