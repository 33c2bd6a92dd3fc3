/**
 * The last request of each kind of client, recognised by its User-Agent, and what was wrong with the last one that was
 * refused: for the page that helps to connect a client. No text of a User-Agent is kept, since clients may send keys in it.
 */
import { type Failure, rowOf } from '../core/failure.ts'
import type { HeaderLookup } from '../core/headers.ts'
import type { TraceSummary } from '../core/trace-summary.ts'
import { programOf } from '../policy/client-programs.ts'
import { KEY_HEADERS } from '../protocols/index.ts'

/** A request of a client. Plain JSON data, since workers exchange them. */
export type SeenRequest = {
  readonly id: string
  /** ms since 1970. */
  readonly at: number
  readonly method: string
  /** With keys masked. */
  readonly path: string
  /** The version of the client, if it sends one. */
  readonly version: string | null
  readonly model: string | null
  /** `under_way`: its end has not been seen. */
  readonly outcome: TraceSummary['outcome'] | 'under_way'
  readonly status: number | null
  readonly problem: SeenProblem | null
}

/** What was wrong. `header` and `last4`: of the key that was presented. */
export type SeenProblem = {
  readonly kind: 'no_key' | 'wrong_key' | 'doubled_path' | 'unknown_path' | 'web_socket' | 'unknown_model' | 'other'
  readonly code: string
  /** As the client received it. It names the nearest path or model. */
  readonly message: string
  readonly header: string | null
  readonly last4: string | null
}

/** `requests`: since the start of the process. */
export type SeenClient = {
  readonly family: string
  readonly requests: number
  readonly last: SeenRequest
  /** The last request with a problem. */
  readonly wrong: SeenRequest | null
}

/** A request as it arrived. */
export type ArrivedRequest = {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly headers: HeaderLookup
}

/** Characters of a path, a model name or a message. */
const MAX_TEXT = 300
/** Characters of a presented key, from which its last four are kept. */
const MIN_KEY = 16

type MutableRequest = { -readonly [name in keyof SeenRequest]: SeenRequest[name] }
type MutableClient = { requests: number; last: MutableRequest; wrong: MutableRequest | null }

export class ClientsSeen {
  readonly #date: () => number
  /** One for each family. */
  readonly #clients = new Map<string, MutableClient>()

  /** `date`: ms since 1970. */
  constructor(date: () => number) {
    this.#date = date
  }

  /** A model call begins. */
  arrived(request: ArrivedRequest): void {
    this.#add(request, { model: null, outcome: 'under_way', status: null, problem: null })
  }

  /** A model call has ended. */
  ended({ id, model, outcome, status, failure }: TraceSummary): void {
    for (const client of this.#clients.values()) {
      if (client.last.id !== id) continue
      const problem = failure?.kind === 'unknown_model' ? problemOf(failure, 'unknown_model') : null
      client.last.model = clip(model)
      client.last.outcome = outcome
      client.last.status = status
      client.last.problem = problem
      if (problem) client.wrong = client.last
    }
  }

  /** A request was refused before it was routed. `path`: with keys masked. */
  refused(request: ArrivedRequest, status: number, failure: Failure): void {
    const { path, headers } = request
    const kind = kindOf(failure, path, headers)
    const problem = problemOf(failure, kind)
    const presented = kind === 'no_key' || kind === 'wrong_key' ? presentedIn(headers) : NO_KEY
    this.#add(request, { model: null, outcome: 'refused', status, problem: { ...problem, ...presented } })
  }

  /** The clients seen so far, the latest first. */
  all(): readonly SeenClient[] {
    return [...this.#clients]
      .map(([family, { requests, last, wrong }]) => ({
        family,
        requests,
        last: { ...last },
        wrong: wrong && { ...wrong },
      }))
      .toSorted((one, other) => other.last.at - one.last.at)
  }

  #add(
    { id, method, path, headers }: ArrivedRequest,
    end: Pick<SeenRequest, 'model' | 'outcome' | 'status' | 'problem'>,
  ): void {
    const { family, version } = programOf(headers('user-agent') ?? '')
    const { model, outcome, status, problem } = end
    const last = { id, at: this.#date(), method, path: clip(path), version, model, outcome, status, problem }
    const client = this.#clients.get(family)
    if (!client) {
      this.#clients.set(family, { requests: 1, last, wrong: end.problem ? last : null })
      return
    }
    client.requests++
    client.last = last
    if (end.problem) client.wrong = last
  }
}

/** The clients of several processes as one list. */
export const mergeClients = (lists: readonly (readonly SeenClient[])[]): readonly SeenClient[] => {
  const merged = new Map<string, SeenClient>()
  for (const client of lists.flat()) {
    const known = merged.get(client.family)
    if (!known) merged.set(client.family, client)
    else
      merged.set(client.family, {
        family: client.family,
        requests: known.requests + client.requests,
        last: known.last.at >= client.last.at ? known.last : client.last,
        wrong: (known.wrong?.at ?? 0) >= (client.wrong?.at ?? 0) ? known.wrong : client.wrong,
      })
  }
  return [...merged.values()].toSorted((one, other) => other.last.at - one.last.at)
}

const kindOf = (failure: Failure, path: string, headers: HeaderLookup): SeenProblem['kind'] => {
  const { kind } = failure
  if (kind === 'unauthenticated') return presentedIn(headers).header === null ? 'no_key' : 'wrong_key'
  const isWebSocket = /websocket/i.test(headers('upgrade') ?? '')
  if (kind === 'upgrade_required' || (isWebSocket && kind === 'unknown_url')) return 'web_socket'
  if (kind !== 'unknown_url') return 'other'
  return /^(?:\/v1){2}(?:\/|$)/.test(path) ? 'doubled_path' : 'unknown_path'
}

const NO_KEY = { header: null, last4: null }

/** The header with a key, and the end of the key. A bearer token beside another key may be of another service: it comes last. */
const presentedIn = (headers: HeaderLookup): Pick<SeenProblem, 'header' | 'last4'> => {
  for (const header of [...KEY_HEADERS, 'authorization']) {
    const key = headers(header)
      ?.trim()
      .replace(/^bearer[ \t]+/i, '')
    if (key !== undefined && key !== '' && !/^bearer$/i.test(key))
      return { header, last4: key.length >= MIN_KEY ? key.slice(-4) : null }
  }
  return NO_KEY
}

const problemOf = (failure: Failure, kind: SeenProblem['kind']): SeenProblem => ({
  kind,
  code: rowOf(failure).code,
  message: clip(failure.message),
  ...NO_KEY,
})

const clip = (text: string): string => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text)
