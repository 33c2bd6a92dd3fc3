/**
 * The text and the fault of each response of the soak run, as functions of the request's ID and the provider's name. The
 * providers and the checks both use them, so that every byte of every response can be verified.
 */

/** How an attempt fails, and whether its answer is complete nevertheless. */
export const FAULTS = {
  /** RST instead of an answer. */
  reset: { complete: false },
  /** RST inside the body. */
  reset_middle: { complete: false },
  /** FIN inside a chunked body. */
  truncated: { complete: false },
  /** A body without a length that is cut by closing the connection: to the transport it looks complete. */
  ends_early: { complete: false },
  /** No further byte after half of the answer. */
  stall: { complete: false },
  /** No response. */
  silent: { complete: false },
  /** Status 500. */
  error: { complete: false },
  /** Status 429 with Retry-After: 1. */
  limited: { complete: false },
  /** A well-formed error event after content. */
  error_event: { complete: false },
  /** A well-formed answer without text. */
  empty: { complete: true },
  /** A malformed event between valid ones. */
  malformed: { complete: true },
  /** A quarter of the usual speed. */
  slow: { complete: true },
} as const
export type Fault = keyof typeof FAULTS
const NAMES = Object.keys(FAULTS) as readonly Fault[]

/** FNV-1a over UTF-16 units, as a number in [0, 1). */
const share = (text: string): number => {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  // The upper bits are weak for short texts, so the finalizer of MurmurHash3 mixes them.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}

/** The fault of a response, or null. `percent`: share of each kind of fault. */
export const faultOf = (id: string, provider: string, percent: number): Fault | null =>
  NAMES[Math.floor(share(`fault ${id} ${provider}`) / (percent / 100))] ?? null

/** The complete text of an answer; begins with the provider's name and the request's ID. */
export const textOf = (id: string, provider: string): string => {
  const words = 20 + Math.floor(share(`length ${id} ${provider}`) * 40)
  // One word in seven has multibyte characters, so that cuts fall inside characters.
  const word = (at: number) =>
    at % 7 === 3 ? `größe${at}😀` : Math.floor(share(`${id} ${provider} ${at}`) * 2 ** 32).toString(36)
  return `${provider} ${id} ${Array.from({ length: words }, (_, at) => word(at)).join(' ')}.`
}

/** What a client received for its request. */
export type ClientView = {
  readonly id: string
  /** The content received. */
  readonly text: string
  /** Status of the response; 0: no response. */
  readonly status: number
  /** The API style's end marker was received. */
  readonly finished: boolean
  /** The error in the stream or in the error body. */
  readonly error: string | null
  /** The body ended correctly by HTTP; otherwise the connection broke. */
  readonly whole: boolean
  /** The client disconnected. */
  readonly left: boolean
}

/**
 * `complete`, `empty`: as the provider sent it. `refused`: an error instead of an answer. `interrupted`: an error in the
 * stream. `left`: the client disconnected. `broken`: the connection broke without an error. `silent`: an incomplete answer
 * that looks complete. `wrong`: text that no provider sent.
 */
export type Ending = 'complete' | 'empty' | 'refused' | 'interrupted' | 'left' | 'broken' | 'silent' | 'wrong'

export const judge = (view: ClientView, providers: readonly string[], percent: number): Ending => {
  const { id, text, status, finished, error, whole, left } = view
  const provider = providers.find((name) => text.startsWith(`${name} `))
  const expected = provider === undefined ? null : textOf(id, provider)
  const isEmpty = text === ''
  if (!isEmpty && provider === undefined && !providers.some((name) => name.startsWith(text))) return 'wrong'
  if (expected !== null && !expected.startsWith(text)) return 'wrong'
  if (left) return 'left'
  if (status !== 200) return status === 0 ? 'broken' : error === null ? 'wrong' : 'refused'
  if (error !== null) return finished ? 'silent' : 'interrupted'
  if (!whole) return 'broken'
  if (isEmpty && finished && providers.some((name) => faultOf(id, name, percent) === 'empty')) return 'empty'
  return finished && text === expected ? 'complete' : 'silent'
}
