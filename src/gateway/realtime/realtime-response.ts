/** A response of a session, with a row of its own: reserved before it begins, charged by what it used. */
import type { Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { REALTIME } from '../../core/relay.ts'
import type { Plan, Target } from '../../core/target.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import { protocols } from '../../protocols/index.ts'
import { type Eventual, whenKnown } from '../accounts/authority.ts'
import { type CallDemand, relayDemand } from '../accounts/demand.ts'
import type { AttemptSource } from '../accounts/open-attempt.ts'
import { Recorder, type RecorderDeps } from '../call/recorder.ts'
import { SWITCHED } from '../upstream/body-reader.ts'
import type { StatedUsage } from './realtime-events.ts'

/** Tokens of audio that a response reserves: three minutes and a half of speech. */
const RESERVED = 4_096

/** What a response needs; also a session before it is open, so that it is refused as its first response would be. */
export const responseDemand = (model: string, plan: Plan): CallDemand => ({
  ...relayDemand({ members: {}, model, plan, input: 0, output: RESERVED }),
  isAudio: true,
})

/** What the responses of a session have in common. `model`: as the client named it. */
export type RealtimeFacts = {
  readonly received: IncomingRequest
  readonly model: string
  readonly plan: Plan
  readonly target: Target
}

export class RealtimeResponse {
  readonly #gateway: RecorderDeps
  readonly #recorder: Recorder
  readonly #target: Target
  readonly #source = new ResponseSource()
  #isBegun = false
  /** The beginning is being written; null: it is written, or there is no journal. */
  #recording: Promise<boolean> | null = null

  /** `number`: of the response in its session. */
  constructor(gateway: RecorderDeps, { received, model, plan, target }: RealtimeFacts, number: number) {
    const { id, ownId, headers } = received
    const ids = { id: `${id}-${number}`, ownId: ownId && `${ownId}-${number}` }
    this.#gateway = gateway
    this.#target = target
    this.#recorder = new Recorder(
      gateway,
      { ...received, ...ids },
      { protocol: protocols['openai-chat'], style: REALTIME },
    )
    this.#refused = this.#recorder.received({ model, stream: true, members: {}, headers })
    this.#recorder.account.describe(responseDemand(model, plan))
  }

  /** A session that was stopped. */
  readonly #refused: Failure | null

  /** A response is in progress. */
  get isBegun(): boolean {
    return this.#isBegun
  }

  /** Reserves. Returns why no further response may begin, or null. */
  reserve(): Eventual<Failure | null> {
    const { admission } = this.#recorder.account
    if (this.#refused) return this.#refuse(this.#refused)
    return whenKnown(admission.reserve(this.#target, undefined), (refusal) =>
      refusal === null ? null : this.#refuse(admission.ownFailure([]) ?? NO_ROOM),
    )
  }

  #refuse(failure: Failure): Failure {
    this.#recorder.end('refused', statusOf(failure), failure)
    this.#recorder.account.close()
    return failure
  }

  /** The response begins: from here on it is recorded, and charged also if the process ends. Resolves with false if it cannot be recorded. */
  begin(): Promise<boolean> | null {
    if (this.#isBegun) return null
    this.#isBegun = true
    const { candidate, key } = this.#target
    const { attempts } = this.#recorder.account
    const recording = attempts.record(false)
    const at = this.#gateway.world.now()
    this.#recorder.note({ type: 'attempt', at, provider: candidate.instance.id, model: candidate.model, key: key.id })
    attempts.sent(this.#source)
    this.#recording = recording
    void recording?.then(() => {
      this.#recording = null
    })
    return recording
  }

  /** The response is complete. `model`: that was used; null: the session's. */
  complete(usage: StatedUsage, model: string | null): Eventual<void> {
    void this.begin()
    return whenKnown(this.#recording, () => this.#complete(usage, model))
  }

  #complete(usage: StatedUsage, model: string | null): void {
    if (usage === 'none') return this.#fail(FAILED)
    if (usage === 'unknown') return this.#interrupt(UNCOUNTED)
    this.#source.state(usage, model)
    this.#commit()
    this.#recorder.used({ usage })
    this.#recorder.answeredBy({ target: this.#target, prepared: NOTHING_DROPPED })
    this.#end('answered')
  }

  /** The session ends, or states no usage: a response in progress is charged as reserved. */
  interrupt(failure: Failure): Eventual<void> {
    // The journal writes the ends of a turn before the beginnings.
    return whenKnown(this.#recording, () => this.#interrupt(failure))
  }

  #interrupt(failure: Failure): void {
    if (this.#recorder.ended) return
    if (!this.#isBegun) return this.#drop()
    this.#commit()
    this.#end(failure.kind === 'client_gone' ? 'client_gone' : 'interrupted', failure)
  }

  #fail(failure: Failure): void {
    this.#recorder.note({ type: 'failed', at: this.#gateway.world.now(), attempt: 0, failure })
    this.#end('interrupted', failure)
  }

  #commit(): void {
    this.#recorder.note({ type: 'committed', at: this.#gateway.world.now(), attempt: 0, status: SWITCHED })
  }

  #end(how: 'answered' | 'interrupted' | 'client_gone', failure?: Failure): void {
    this.#recorder.end(how, 200, failure)
    this.#recorder.account.close()
  }

  /** Nothing was used, so there is no row. */
  #drop(): void {
    this.#recorder.account.attempts.discard()
    this.#recorder.account.close()
  }
}

const NOTHING_DROPPED = { dropped: [] }
const NO_ROOM = fail('budget_exceeded', 'A limit or budget of this key leaves no room for another response.')
const FAILED = fail('status', 'the response has failed at the provider, which states no tokens', { status: 500 })
const UNCOUNTED = fail('truncated', 'the provider states no tokens of the response')

/** What a response has used, for its account. */
class ResponseSource implements AttemptSource {
  readonly facts = { format: REALTIME, id: null, model: null, finishReason: null }
  #usage: Usage | null = null
  #model: string | null = null

  state(usage: Usage, model: string | null): void {
    this.#usage = usage
    this.#model = model
  }

  usage(): Usage | null {
    return this.#usage
  }

  finished(): boolean {
    return this.#usage !== null
  }

  output() {
    return NO_TEXT
  }

  model(): string | null {
    return this.#model
  }
}

const NO_TEXT = { length: 0, beginning: '' }
