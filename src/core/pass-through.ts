/** The pass-through of a provider instance: what of its own API clients may call at `/{instance}/…`. */
import type { Nano } from './money.ts'

export const PASS_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
export type HttpMethod = (typeof PASS_METHODS)[number]

export type PassThrough = {
  /** Globs of paths as the provider has them, with the version: `/v1/files/**`. */
  readonly paths: readonly string[]
  readonly methods: readonly HttpMethod[]
  /** Who reaches an object that a client has made: its team, its key, or every client of the instance. */
  readonly isolate: 'team' | 'key' | 'none'
  /** Redirects to other addresses than those below the provider's roots: refused, or handed on to the client. */
  readonly redirects: 'refuse' | 'pass'
  /** Calls of clients whose texts guards check: refused, or passed on unchecked. */
  readonly guarded: 'refuse' | 'allow'
  /** The cost of a call whose usage is not known; null: unknown. */
  readonly charge: Nano | null
}

/** What a provider states of its pass-through. */
export type PassRoots = {
  /** Paths at its origin beside that of the base URL. */
  readonly roots?: readonly string[]
  /** Names in its paths contain `%2F`. */
  readonly encodedSlashes?: true
}

/** The style of these calls in the log, in the ledger and in the `styles` of a key. */
export const PASS = 'pass'
