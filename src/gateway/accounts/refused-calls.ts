/**
 * Requests that were refused before they became calls, for the list of requests: wrong keys, unknown paths, large bodies, limits
 * of the gateway. A flood of them must fill neither the ledger nor memory, so each source and all together have a rate. What
 * is above it is only counted, and the next listed request of the source states the number.
 */

import { BoundedMap } from '../../core/bounded-map.ts'
import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { RequestEnded } from '../../core/journal.ts'
import { traceParent } from '../../core/trace-parent.ts'
import { recordedCode } from '../../policy/accounts/attempt-end.ts'
import { fullBucket, hasTokens, type TokenBucket, takeTokens } from '../../policy/accounts/token-bucket.ts'
import { programOf } from '../../policy/client-programs.ts'
import type { AccountsState } from './accounts-state.ts'

/** The key that was presented, if it is or was one of this gateway. `why`: why it may not be used; null: it may. */
export type RefusedOwner = { readonly key: string; readonly team: string | null; readonly why: string | null }

export type RefusedCall = {
  readonly id: string
  readonly ownId?: string | undefined
  readonly style: string
  readonly method: string
  /** With keys masked. */
  readonly path: string
  readonly status: number
  readonly failure: Failure
  /** Absent: the request could not be parsed. */
  readonly headers?: HeaderLookup | undefined
  /** The address of the client, or its key if that may be used. */
  readonly source: string
  /** The key may be used: its requests are listed beside a flood of others. */
  readonly isIdentified: boolean
  /** Called only if the request is listed. */
  readonly owner: () => RefusedOwner | null
}

/** Listed requests a minute, and at once after a pause. */
const PER_MINUTE = { source: 20, identified: 600, others: 60 } as const
/** Characters of a path, and of a message with it. */
const MOST = { path: 150, message: 420 } as const

type RefusedSource = { readonly bucket: TokenBucket; unlisted: number }

export class RefusedCalls {
  readonly #state: Pick<AccountsState, 'world' | 'journal'>
  readonly #sources = new BoundedMap<RefusedSource>()
  readonly #all = new Map<'identified' | 'others', TokenBucket>()

  constructor(state: Pick<AccountsState, 'world' | 'journal'>) {
    this.#state = state
  }

  /** Records a refused request, or counts it. `nextCall`: takes the number of a call. */
  record(call: RefusedCall, nextCall: () => number): void {
    const journal = this.#state.journal()
    const unlisted = journal ? this.#admit(call) : null
    if (journal && unlisted !== null) journal.append(recordOf(call, nextCall(), this.#state.world.date(), unlisted))
  }

  /** The number of requests of this source that were only counted since the last listed one; null: so is this one. */
  #admit({ source, isIdentified }: RefusedCall): number | null {
    const now = this.#state.world.now()
    const group = isIdentified ? 'identified' : 'others'
    const all = this.#all.get(group) ?? fullBucket(PER_MINUTE[group], now)
    if (!hasTokens(all, 1, PER_MINUTE[group], now)) return null
    const { bucket, unlisted } = this.#sources.get(source) ?? {
      bucket: fullBucket(PER_MINUTE.source, now),
      unlisted: 0,
    }
    const isListed = hasTokens(bucket, 1, PER_MINUTE.source, now)
    if (isListed) this.#all.set(group, takeTokens(all, 1, PER_MINUTE[group], now))
    this.#sources.set(
      source,
      isListed
        ? { bucket: takeTokens(bucket, 1, PER_MINUTE.source, now), unlisted: 0 }
        : { bucket, unlisted: unlisted + 1 },
    )
    return isListed ? unlisted : null
  }
}

const recordOf = (call: RefusedCall, number: number, at: number, unlisted: number): RequestEnded => {
  const { id, ownId, style, status, failure, headers } = call
  const owner = call.owner()
  return {
    type: 'request_ended',
    call: number,
    request: ownId ?? id,
    received: at,
    at,
    style,
    stream: false,
    asked: '',
    route: null,
    provider: null,
    model: null,
    key: owner?.key ?? null,
    team: owner?.team ?? null,
    person: null,
    endUser: null,
    tags: null,
    tag: null,
    outcome: 'refused',
    status,
    code: recordedCode(failure),
    message: messageOf(call, owner, unlisted),
    trail: null,
    decision: null,
    cache: 'off',
    firstContentMs: null,
    overheadUs: null,
    saved: 0,
    require: null,
    session: null,
    agent: null,
    sessionName: null,
    guards: null,
    trace: traceParent(headers?.('traceparent')),
    client: programOf(headers?.('user-agent') ?? '').family,
    clientRequestId: ownId === undefined ? null : id,
  }
}

const messageOf = ({ method, path, failure }: RefusedCall, owner: RefusedOwner | null, unlisted: number): string =>
  [
    `${method} ${path.slice(0, MOST.path)}: ${failure.message}`.trimStart().slice(0, MOST.message),
    ...(owner?.why ? [owner.why] : []),
    ...(unlisted > 0 ? [`${unlisted} earlier ones of this client are not listed.`] : []),
  ].join(' ')
