/**
 * What a provider of the soak run says and how it breaks, as a function of the request's id and the provider's name.
 * The provider and whoever checks what arrived both ask here, so that every byte of every answer can be judged.
 */

/** How an attempt goes wrong, and whether the answer is complete all the same. */
export const FAULTS = {
  /** RST instead of an answer. */
  reset: { complete: false },
  /** RST in the middle. */
  reset_middle: { complete: false },
  /** FIN in the middle of a chunked body. */
  truncated: { complete: false },
  /** A body without a length that ends in the middle with its connection: what transports take for a good end. */
  ends_early: { complete: false },
  /** No byte more, from the middle on. */
  stall: { complete: false },
  /** No head. */
  silent: { complete: false },
  /** Status 500. */
  error: { complete: false },
  /** Status 429 with a second to wait. */
  limited: { complete: false },
  /** A well-formed error event after content. */
  error_event: { complete: false },
  /** A well-formed answer without a word. */
  empty: { complete: true },
  /** An event that cannot be read, between good ones. */
  malformed: { complete: true },
  /** Four times as slow as the others. */
  slow: { complete: true },
} as const
export type Fault = keyof typeof FAULTS
const NAMES = Object.keys(FAULTS) as readonly Fault[]

/** FNV-1a over UTF-16 units, as a share in [0, 1). */
const share = (text: string): number => {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  // Its upper bits are poor for short texts: mixed once more (the finalizer of MurmurHash3).
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}

/** `percent`: of each kind of fault. Null: it answers well. */
export const faultOf = (id: string, provider: string, percent: number): Fault | null =>
  NAMES[Math.floor(share(`fault ${id} ${provider}`) / (percent / 100))] ?? null

/** The whole text of an answer; begins with who says it and to what. */
export const textOf = (id: string, provider: string): string => {
  const words = 20 + Math.floor(share(`length ${id} ${provider}`) * 40)
  // One word in seven needs more than a byte a character: cuts between bytes must not show.
  const word = (at: number) =>
    at % 7 === 3 ? `größe${at}😀` : Math.floor(share(`${id} ${provider} ${at}`) * 2 ** 32).toString(36)
  return `${provider} ${id} ${Array.from({ length: words }, (_, at) => word(at)).join(' ')}.`
}

/** A request as its client asked for it and what has come of it. */
export type Heard = {
  readonly id: string
  /** Content so far. */
  readonly text: string
  /** Status of the answer; 0: none came. */
  readonly status: number
  /** The style's own sign of a complete answer has come. */
  readonly finished: boolean
  /** An error told in the stream, or in the body of a refusal. */
  readonly error: string | null
  /** The body ended as HTTP wants it; otherwise the connection broke. */
  readonly whole: boolean
  /** The client itself left. */
  readonly left: boolean
}

/**
 * `complete`, `empty`: as the provider said it. `refused`: an error instead of an answer. `interrupted`: told in the
 * stream. `left`: by the client. `broken`: the connection broke without a word. `silent`: an incomplete answer that a
 * client takes for complete. `wrong`: text nobody said.
 */
export type Ending = 'complete' | 'empty' | 'refused' | 'interrupted' | 'left' | 'broken' | 'silent' | 'wrong'

export const judge = (heard: Heard, providers: readonly string[], percent: number): Ending => {
  const { id, text, status, finished, error, whole, left } = heard
  const provider = providers.find((name) => text.startsWith(`${name} `))
  const expected = provider === undefined ? null : textOf(id, provider)
  const saysNothing = text === ''
  if (!saysNothing && provider === undefined && !providers.some((name) => name.startsWith(text))) return 'wrong'
  if (expected !== null && !expected.startsWith(text)) return 'wrong'
  if (left) return 'left'
  if (status !== 200) return status === 0 ? 'broken' : error === null ? 'wrong' : 'refused'
  if (error !== null) return finished ? 'silent' : 'interrupted'
  if (!whole) return 'broken'
  if (saysNothing && finished && providers.some((name) => faultOf(id, name, percent) === 'empty')) return 'empty'
  return finished && text === expected ? 'complete' : 'silent'
}
