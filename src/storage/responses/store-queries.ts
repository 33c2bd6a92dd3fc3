/** Queries, options and events of the store's thread (`store-thread.ts`). Plain data. */
import type { AnswerClaim, RepeatableAnswer } from '../../core/shared-answer.ts'
import type {
  LostRun,
  ResponseName,
  RunEvents,
  RunNews,
  RunRequest,
  StoredResponse,
} from '../../core/stored-response.ts'
import type { SharedDatabase } from '../sql/shared-database.ts'
import type { ThreadCall } from '../thread/thread-program.ts'

/** Days until a response expires, the maximum MiB of responses, and that of answers kept for an `Idempotency-Key`. */
export type Limits = { readonly keepDays: number; readonly maxMegabytes: number; readonly answerMegabytes: number }

/** The response that has an output item. */
export type HoldingQuery = { readonly item: string; readonly owner: string }
/** Events of a response from an index on. */
export type EventsQuery = ResponseName & { readonly from: number }
export type AddedEvents = EventsQuery & { readonly lines: string }
export type RunQuestion = ResponseName & { readonly asked: RunRequest }
export type ClaimQuery = { readonly name: string; readonly fingerprint: string }
export type KeptQuery = { readonly name: string; readonly answer: RepeatableAnswer; readonly ms: number }

/** What both stores can do. `call`: writes that may be cancelled while they wait. */
export type StoreMethods = {
  readonly get: (query: ResponseName) => Promise<StoredResponse | undefined>
  readonly turns: (query: ResponseName) => Promise<readonly StoredResponse[]>
  readonly holding: (query: HoldingQuery) => Promise<StoredResponse | undefined>
  readonly put: (response: StoredResponse, call: ThreadCall) => Promise<null>
  readonly delete: (query: ResponseName, call: ThreadCall) => Promise<boolean>
  readonly ask: (query: RunQuestion, call: ThreadCall) => Promise<boolean>
  readonly events: (query: EventsQuery) => Promise<RunEvents>
  readonly addEvents: (events: AddedEvents, call: ThreadCall) => Promise<null>
  readonly claim: (query: ClaimQuery, call: ThreadCall) => Promise<AnswerClaim>
  readonly keep: (kept: KeptQuery, call: ThreadCall) => Promise<null>
  readonly release: (name: string) => Promise<null>
  /** Checks whether writing works. */
  readonly probe: (_: null, call: ThreadCall) => Promise<null>
  readonly limits: (limits: Limits) => void
  /** This process ends soon: it takes over nothing more. */
  readonly retire: (_: null) => void
}

/** `worker`: the process, as `PID.START@HOST`. `database`: null: a file in the folder. */
export type StoreThreadOptions = {
  readonly folder: string
  readonly database: SharedDatabase | null
  readonly worker: string
  readonly limits: Limits
}

export type StoreEvents = {
  /** Why the next write has to wait; null: it need not. */
  readonly waiting: string | null
  /** The files were deleted or moved, and new ones have been created. */
  readonly recreated: null
  readonly news: RunNews
  /** This process is to run them. */
  readonly lost: readonly LostRun[]
}

/** Characters of a response. */
export const sizeOf = ({ input, response, events, again }: StoredResponse): number =>
  input.length + response.length + (events?.length ?? 0) + (again?.length ?? 0)
