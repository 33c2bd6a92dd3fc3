/** The targets that have the prompts of sessions in their caches, of this gateway and of those that share its store. */
import { BoundedMap } from '../../core/bounded-map.ts'
import type { Instance } from '../../core/provider.ts'
import type { StickyTarget } from '../../policy/routing/stickiness.ts'
import type { HealthHint } from './health-hint.ts'
import { type KeptPrompt, PromptCaches } from './prompt-caches.ts'

type Remembered = {
  readonly target: StickyTarget
  /** In ms of the monotonic clock. */
  readonly until: number
  /** Until when other gateways expect it. */
  readonly sharedUntil: number
}

/** The last conversations that are remembered. */
const MOST = 100_000

export class StickyTargets {
  readonly #now: () => number
  readonly #tell: (hint: HealthHint) => void
  /** What sessions have in the caches of targets. */
  readonly caches: PromptCaches
  readonly #targets = new BoundedMap<Remembered>(undefined, MOST)

  constructor(now: () => number, tell: (hint: HealthHint) => void) {
    this.#now = now
    this.#tell = tell
    this.caches = new PromptCaches(now)
  }

  /** No prompt is cached anywhere, so that no request needs the name of its conversation. */
  get isEmpty(): boolean {
    return this.#targets.isEmpty
  }

  /** The target of a conversation; null: its cache has expired, or there is none. */
  of(conversation: string): StickyTarget | null {
    const found = this.#targets.get(conversation)
    return found && found.until > this.#now() ? found.target : null
  }

  /** The target has the prompt in its cache for `ms`. `kept`: what of it. Others learn of it at its first use, and when half of that time is over. */
  note(conversation: string, target: StickyTarget, ms: number, kept?: KeptPrompt): void {
    const now = this.#now()
    const known = this.#targets.get(conversation)
    const isSame = known !== undefined && isEqual(known.target, target)
    // What is kept for an hour stays so, although later reads do not state it.
    const until = Math.max(now + ms, isSame ? known.until : 0)
    const isKnown = isSame && known.sharedUntil - now > (until - now) / 2
    if (!isKnown) this.#tell({ kind: 'sticky', id: conversation, target, ms: until - now, ...(kept && { kept }) })
    this.#targets.set(conversation, { target, until, sharedUntil: isKnown ? known.sharedUntil : until })
  }

  /** Another gateway has remembered a target, `age` ms ago. `instances`: those that are configured here. */
  learn({ id, target, ms, kept }: StickyHint, age: number, instances: readonly Instance[]): void {
    const until = this.#now() + ms - age
    this.#targets.set(id, { target, until, sharedUntil: until })
    const instance = instances.find((one) => one.id === target.instance)
    const key = instance?.keys.find((one) => one.id === target.key)
    if (!kept || !instance || !key) return
    const candidate = { instance, model: target.model, because: '', weight: 1 }
    this.caches.learn(id, { candidate, key }, { kept, life: ms, age })
  }
}

type StickyHint = Extract<HealthHint, { kind: 'sticky' }>

const isEqual = (a: StickyTarget, b: StickyTarget): boolean =>
  a.instance === b.instance && a.key === b.key && a.model === b.model
