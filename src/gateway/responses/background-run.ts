/** Runs background responses: the upstream call, and the states that are stored. */
import type { EncodedText } from '../../core/encoded-text.ts'
import { type Failure, fail, good } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { JsonObject } from '../../core/json.ts'
import { writeLarge } from '../../core/large-write.ts'
import { inTurns, PIECE } from '../../core/steps.ts'
import { namedUsers } from '../../policy/accounts/blocked-users.ts'
import { protocols } from '../../protocols/index.ts'
import { failedResponse } from '../../protocols/openai-responses/encode-answer.ts'
import { serveChat } from '../chat/serve-chat.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import { BackgroundResponse, type ResponsesDeps } from './background-response.ts'
import { type ConversationTurn, type TurnDeps, type TurnOptions, turnFor } from './conversation.ts'
import { contextOf } from './turn-deps.ts'

const { 'openai-responses': openaiResponses } = protocols

/**
 * Soft limit on the characters of buffered background events: above it no further background response starts. At twice
 * this, responses in progress are aborted.
 */
const MAX_BUFFERED = 256 * 1024 * 1024

/** ms before a failed write to the store is retried, doubled each time. */
export const STORE_RETRY = { first: 1_000, longest: 60_000 }
/** Attempts to store a background response, within about 10 minutes. */
export const STORE_ATTEMPTS = 16

const bufferedBy = (jobs: ResponsesDeps['jobs']): number => jobs.values().reduce((sum, { size }) => sum + size, 0)

/** Why no further background response may start; null: one may. */
export const capacityProblem = ({ jobs, config }: ResponsesDeps): Failure | null => {
  const { concurrent } = config().settings.limit
  if (jobs.size >= concurrent)
    return fail('busy', `Too many background responses in progress (limit.concurrent is ${concurrent}). Retry later.`)
  if (bufferedBy(jobs) > MAX_BUFFERED)
    return fail(
      'busy',
      `Background responses in progress use too much memory (limit ${MAX_BUFFERED} characters of events). Retry later.`,
    )
  return null
}

export type BackgroundRun = {
  readonly gateway: ResponsesDeps
  readonly deps: TurnDeps
  readonly received: IncomingRequest
  readonly inbound: InboundRequest
  readonly options: TurnOptions
  readonly letters: ReplayedLetters
  /** The turn that is answered. It is replaced by one that receives the target that answers. */
  turn: ConversationTurn
  /** The response object before the answer. */
  readonly queued: JsonObject
  readonly mayRunAgain: boolean
}

/** Adds the response of a run to those in progress. */
export const startJob = (run: BackgroundRun): BackgroundResponse => {
  const { gateway, deps, received, options, inbound, queued, mayRunAgain } = run
  const { jobs } = gateway
  const context = { ...contextOf(gateway.world, run.turn, received), created: deps.created }
  const job = new BackgroundResponse({
    owner: received.client.owner,
    users: namedUsers(inbound.body),
    queued,
    mayRunAgain,
    failed: (failure) => failedResponse(context, failure),
    hasRoom: () => bufferedBy(jobs) <= 2 * MAX_BUFFERED,
    save: saverOf(run),
  })
  jobs.set(options.id, job)
  return job
}

/** Makes the call. It always streams, so that the events can be followed and the stream timeouts apply. */
export const serveRun = async (run: BackgroundRun, job: BackgroundResponse): Promise<void> => {
  const { gateway, deps, received, options, letters } = run
  const body = await streamedBody(run)
  void serveChat(gateway, {
    protocol: openaiResponses,
    received: { ...received, body },
    responseWriter: job,
    startTurn: async (inbound) => {
      const turn = await turnFor({ ...deps, randomLetters: letters.replay() }, inbound, options)
      if (!turn.ok) return turn
      run.turn = turn.value
      return good({ turn: turn.value, responseWriter: job })
    },
  })
}

/**
 * Stores each state of a background response. Resolves after the first attempt: a failed write of the end is retried by a
 * timer. The job is removed when its end is stored, or after the last attempt.
 */
const saverOf = (run: BackgroundRun): ConstructorParameters<typeof BackgroundResponse>[0]['save'] => {
  const { world, jobs } = run.gateway
  const { id } = run.options
  return async (value, status, events) => {
    const response = JSON.stringify(value)
    if (status === 'in_progress') return void (await run.turn.save({ response, status, events: null }))
    const lines = events.map(({ data }) => data).join('\n')
    // Until its end is stored the response is served from the job: the store still has it in progress.
    const store = async (attempts: number, wait: number): Promise<void> => {
      if (!jobs.has(id)) return
      const failure = await run.turn.save({ response, status, events: lines })
      if (!failure || attempts === 1) jobs.delete(id)
      else world.later(wait, () => void store(attempts - 1, Math.min(2 * wait, STORE_RETRY.longest)))
    }
    await store(STORE_ATTEMPTS, STORE_RETRY.first)
  }
}

/** The body of a background request as a plain streaming request. */
const streamedBody = async ({ deps, received, inbound }: BackgroundRun): Promise<EncodedText> => {
  const { background: _, stream: __, stream_options: ___, ...rest } = inbound.body
  const streamed = { ...rest, stream: true }
  if (received.body.text.length <= PIECE) return { text: JSON.stringify(streamed) }
  return inTurns(writeLarge(streamed), deps.loopTurn)
}

/** Random letters that can be repeated: a request parsed twice gives its items the same ids. */
export class ReplayedLetters {
  readonly made: string[]
  readonly #random: TurnDeps['randomLetters']

  /** `made`: those of an earlier run. */
  constructor(random: TurnDeps['randomLetters'], made: readonly string[] = []) {
    this.#random = random
    this.made = [...made]
  }

  /** From the first letters on. */
  replay(): TurnDeps['randomLetters'] {
    let at = 0
    return (length) => {
      const letters = this.made[at] ?? this.#random(length)
      this.made[at++] = letters
      return letters
    }
  }
}
