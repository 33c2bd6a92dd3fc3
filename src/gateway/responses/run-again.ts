/**
 * Runs background responses of processes that have ended. Their requests are stored while they are in progress, without
 * credentials: the client is looked up again, and one that may not call models any more gets no answer.
 */
import { REQUIRE_HEADER } from '../../core/data-policy.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { GUARDS_HEADER } from '../../core/guard.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { type JsonObject, parseObject } from '../../core/json.ts'
import { timeLetters } from '../../core/request-time.ts'
import type { LostRun } from '../../core/stored-response.ts'
import { BREAKPOINTS_HEADER } from '../../core/target-override.ts'
import { hasEffects } from '../../policy/retry/retry-safety.ts'
import { SESSION_HEADERS } from '../../policy/sessions/named-session.ts'
import { protocols } from '../../protocols/index.ts'
import { randomLetters } from '../call/ids.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import { parseInTurns } from '../upstream/parse-request.ts'
import type { ResponsesDeps } from './background-response.ts'
import { ReplayedLetters, STORE_ATTEMPTS, STORE_RETRY, serveRun, startJob } from './background-run.ts'
import { turnFor } from './conversation.ts'
import { turnDeps } from './turn-deps.ts'

const { 'openai-responses': openaiResponses } = protocols

/** Headers that are stored: what a call reads of its client, and never a credential. */
const KEPT = [
  'openai-beta',
  'traceparent',
  'user-agent',
  REQUIRE_HEADER,
  GUARDS_HEADER,
  BREAKPOINTS_HEADER,
  ...SESSION_HEADERS,
]

/** The first line of a stored request; its body follows. */
type StoredHead = {
  readonly id: string
  readonly path: string
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  /** ID of the client. */
  readonly client: string
  /** The letters of the ids that its items have. */
  readonly letters: readonly string[]
}

/**
 * Whether a run may be repeated in another process: its provider starts no side effects, its client sees no events of it, and no
 * header is forwarded, since it may be a credential.
 */
export const mayRunAgain = (
  { config, responses, clientNow }: ResponsesDeps,
  { headers }: IncomingRequest,
  { request }: InboundRequest,
): boolean => {
  if (!responses.handsOver || !clientNow || request.stream) return false
  const extras = request.extras.filter(({ name }) => name !== 'background')
  if (hasEffects({ ...request, extras })) return false
  return !config().instances.some(({ forwardHeaders = [] }) =>
    forwardHeaders.some((name) => headers(name) !== undefined),
  )
}

/** The request of a run, as it is stored. */
export const storedRequest = (
  { id, path, query, headers, client, body }: IncomingRequest,
  letters: ReplayedLetters,
): string => {
  const kept = KEPT.flatMap((name) => {
    const value = headers(name)
    return value === undefined ? [] : [[name, value] as const]
  })
  const head: StoredHead = {
    id,
    path,
    query,
    headers: Object.fromEntries(kept),
    client: client.id,
    letters: letters.made,
  }
  return `${JSON.stringify(head)}\n${body.text}`
}

/** Runs the response again, with its ids and its time. If that is not possible, it ends as failed. */
export const runAgain = async (gateway: ResponsesDeps, lost: LostRun): Promise<void> => {
  const { stored } = lost
  const { jobs, world } = gateway
  for (let attempts = STORE_ATTEMPTS; ; attempts--) {
    // This process has it still, and was only cut off.
    if (jobs.has(stored.id)) return
    const failure = await begin(gateway, lost)
    if (!failure) return
    if (failure.kind !== 'storage' || attempts === 1) return endLost(gateway, lost, failure)
    await new Promise<void>((resolve) => void world.later(STORE_RETRY.first, resolve))
  }
}

const begin = async (gateway: ResponsesDeps, lost: LostRun): Promise<Failure | null> => {
  const { stored } = lost
  const request = requestOf(gateway, lost)
  if (!request.ok) return request.failure
  const { received, letters: made } = request.value
  const deps = { ...turnDeps(gateway, received, undefined), created: stored.created }
  if (!deps.stores.durable) return DISABLED
  const parsed = await parseInTurns(openaiResponses, received, deps.limits, deps.loopTurn)
  if (!parsed.ok) return parsed.failure
  const options = { id: stored.id, background: true }
  const letters = new ReplayedLetters(deps.randomLetters, made)
  const turn = await turnFor({ ...deps, randomLetters: letters.replay() }, parsed.value, options)
  if (!turn.ok) return turn.failure
  const queued: JsonObject = { ...parseObject(stored.response), status: 'queued' }
  const inbound = parsed.value
  const run = { gateway, deps, received, inbound, options, letters, turn: turn.value, queued, mayRunAgain: true }
  await serveRun(run, startJob(run))
  return null
}

/** The request as its client has sent it, with another ID of the gateway, under which the ledger has its second call. */
const requestOf = (
  { world, clientNow }: ResponsesDeps,
  { stored, again }: LostRun,
): Outcome<{ readonly received: IncomingRequest; readonly letters: readonly string[] }> => {
  const end = again.indexOf('\n')
  // Only `storedRequest` writes it.
  const head = parseObject(again.slice(0, end)) as StoredHead | undefined
  if (end === -1 || !head) return bad(UNREADABLE)
  const client = clientNow?.({ id: head.client, owner: stored.owner })
  if (!client) return bad(NO_CLIENT)
  const { id, path, query, headers, letters } = head
  const lookup: HeaderLookup = (name) => (Object.hasOwn(headers, name) ? headers[name] : undefined)
  const ownId = `req_${timeLetters(world.date())}${randomLetters(world, 13)}`
  const body = { text: again.slice(end + 1) }
  return good({ received: { id, ownId, method: 'POST', path, query, headers: lookup, body, client }, letters })
}

/** Stores that the response has failed, and repeats a failed write. */
const endLost = async (gateway: ResponsesDeps, { stored }: LostRun, failure: Failure): Promise<void> => {
  const { responses, world } = gateway
  const error = { code: 'server_error', message: failure.message }
  const response = JSON.stringify({ ...parseObject(stored.response), status: 'failed', error })
  const store = async (attempts: number, wait: number): Promise<void> => {
    const problem = await responses.put({ ...stored, status: 'failed', response })
    if (problem && attempts > 1)
      world.later(wait, () => void store(attempts - 1, Math.min(2 * wait, STORE_RETRY.longest)))
  }
  await store(STORE_ATTEMPTS, STORE_RETRY.first)
}

const NO_CLIENT = fail(
  'unauthenticated',
  'The gateway that ran this response has ended, and its client may not call models any more.',
)
const UNREADABLE = fail('internal', 'The gateway that ran this response has ended, and its request cannot be read.')
const DISABLED = fail(
  'unsupported',
  'The gateway that ran this response has ended, and this one stores no responses (responses.keepDays is 0).',
)
