/** The shape of a scenario, and the checks that several of them have. */
import { type Ask, CLIENT_KEY, call, type Seen } from './client.ts'
import type { FaultyResponse } from './faults.ts'
import { type Check, type Expected, type Ideal, type Kind, kindOf } from './judge.ts'
import type { SystemFile } from './system.ts'
import { type LoggedAttempt, type Script, VENDOR_KEYS, type VendorName, type Wall, wordsOf } from './wall.ts'
import type { Style } from './wire.ts'

/** What a scenario has for one run of one style. */
export type Run = {
  readonly system: SystemFile
  readonly wall: Wall
  readonly style: Style
  readonly model: string
  /** Another model of the same vendor. */
  readonly sibling: string
  readonly fallback: string
  /** 1, or 0.1 with `--quick`: for waits. */
  readonly scale: number
  /** Attempts of this run, of both vendors. */
  readonly attempts: (vendor?: VendorName) => readonly LoggedAttempt[]
  /** Calls with a new nonce, judges what came, and keeps it. */
  readonly ask: (more?: Partial<Ask>, expected?: (nonce: string) => Expected) => Promise<Judged>
  readonly judged: Judged[]
}

export type Judged = { readonly seen: Seen; readonly kind: Kind; readonly nonce: string; readonly askedAt: number }

export type Scenario = {
  readonly id: string
  readonly title: string
  /** A public source that is not ours. */
  readonly source: string
  /** Absent: every style that the gateway claims. */
  readonly styles?: readonly Style[]
  readonly ideal: Ideal
  /** The primary vendor. */
  readonly script: Script
  /** The fallback's script: `ok`, `noprefill`, `down`, `badkey`, `limited`. `ok` if absent. */
  readonly fallback?: string
  /** The primary has another address or keys. */
  readonly place?: 'refused' | 'two keys'
  /** Instead of one call. */
  readonly drive?: (run: Run) => Promise<void>
  readonly expected?: (nonce: string) => Expected
  readonly tools?: true
  readonly checks?: (run: Run) => readonly Check[]
  /** Runs with nothing beside it. */
  readonly alone?: true
}

export const plain = (nonce: string): Expected => ({ text: wordsOf(nonce).join(' '), calls: [] })

/** The arguments of a call of the tool: words, in pieces. */
export const callPieces = (nonce: string, from = 1): readonly string[] => {
  const words = wordsOf(`${nonce}${from}`, 12).join(' ')
  return [...(JSON.stringify({ words }).match(/.{1,16}/g) ?? [])]
}

export const makeRun = (base: Omit<Run, 'ask' | 'judged'>, nonceOf: () => string): Run => {
  const judged: Judged[] = []
  return {
    ...base,
    judged,
    ask: async (more = {}, expected = plain) => {
      const nonce = nonceOf()
      const askedAt = base.wall.now()
      const { style, model, fallback, scale } = base
      const seen = await call(base.system, {
        style,
        model,
        fallback,
        nonce,
        limit: Math.max(20_000, 130_000 * scale),
        ...more,
      })
      const one = { seen, kind: kindOf(seen, expected(nonce)), nonce, askedAt }
      judged.push(one)
      return one
    },
  }
}

// ── Checks ───────────────────────────────────────────────────────────────────────────────────────────────────────

export const atMost = (name: string, found: number, most: number): Check => ({
  name: `${name} ≤ ${most}`,
  ok: found <= most,
  found,
})
export const atLeast = (name: string, found: number, least: number): Check => ({
  name: `${name} ≥ ${least}`,
  ok: found >= least,
  found,
})
export const advisory = (check: Check): Check => ({ ...check, advisory: true })

/** Attempts of the primary, as FailoverBench bounds them. */
export const bounded = (run: Run, most = 6): Check =>
  atMost('attempts at the primary', run.attempts('primary').length, most)

/** ms of the slowest call. */
export const slowest = (run: Run): number => Math.max(0, ...run.judged.map(({ seen }) => seen.ms))

const absent = (secrets: readonly string[], texts: readonly string[], name: string): Check => {
  const one = secrets.find((secret) => texts.some((text) => text.includes(secret)))
  return { name, ok: one === undefined, ...(one !== undefined && { found: one }) }
}

/** No key of a vendor, and not the client's, in anything that a client receives. */
export const leakOf = (run: Run): Check => {
  const texts = run.judged.map(
    ({ seen }) => `${seen.error} ${seen.transcript} ${Object.values(seen.headers).join(' ')}`,
  )
  return absent([...VENDOR_KEYS, CLIENT_KEY], texts, 'no key of a vendor or client')
}

/** No address of a vendor in the text of an error. Headers may be a feature. */
export const addressOf = (run: Run): Check => {
  const hosts = Object.values(run.wall.urls).map((url) => new URL(url).host)
  return absent(
    hosts,
    run.judged.map(({ seen }) => `${seen.error} ${seen.transcript}`),
    'no address of a vendor',
  )
}

// ── Changes of a response ────────────────────────────────────────────────────────────────────────────────────────

export const cutAfter =
  (events: number, end: FaultyResponse['end']) =>
  (response: FaultyResponse): FaultyResponse => ({ ...response, pieces: response.pieces.slice(0, events), end })

export const textOf = (response: FaultyResponse): string => response.pieces.map(({ data }) => String(data)).join('')

/** Pieces of this size, without a pause. */
export const inPieces = (response: FaultyResponse, size: number): FaultyResponse => {
  const bytes = new TextEncoder().encode(textOf(response))
  const count = Math.ceil(bytes.length / size)
  const pieces = Array.from({ length: count }, (_, at) => ({ after: 0, data: bytes.slice(at * size, (at + 1) * size) }))
  return { ...response, pieces }
}

export const mapEvents =
  (change: (text: string, index: number) => string) =>
  (response: FaultyResponse): FaultyResponse => ({
    ...response,
    pieces: response.pieces.map((piece, index) => ({ ...piece, data: change(String(piece.data), index) })),
  })
