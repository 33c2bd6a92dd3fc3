/**
 * What upstreams' errors mean, as data: a table of what most of them mean by a word or a status
 * (`src/protocols/errors/common-errors.ts`), and in a provider's own file the table of what only this one says, or says and
 * means something else. `src/protocols/errors/classify.ts` reads them.
 */
import type { FailureKind } from './failure.ts'

export type ErrorTable = {
  /** The day the rows were last held against what the provider says and documents: `2026-11-21`. */
  readonly checked: string
  /** Asked in this order, before the words and statuses all providers share; the first that fits decides. */
  readonly rows: readonly ErrorRow[]
}

export type ErrorRow = {
  readonly when: ErrorSigns
  readonly kind: FailureKind
  /** What shows it: a recording's id, an id of `errors.reported.json`, or a page or thread with its day. A test holds each row against it. */
  readonly seen: string
}

/** What an error has to look like: every sign given has to be there, and there is at least one. */
export type ErrorSigns = {
  /** One of these is the HTTP status. Of an error inside a 200 it is the error's code, if that is a status, and else 200. */
  readonly status?: number | readonly number[]
  /** One of these is its code, its type or a reason behind those, compared without case, blanks, `_`, `-` and a last `Exception`. */
  readonly word?: string | readonly string[]
  /**
   * What the message says. Of a kind that takes a key out of service it has to begin so (`^`): further in, a message may
   * quote the client. Runs over text of unknown origin: no pattern may go back over what it has read.
   */
  readonly message?: RegExp
  /** A header that came with it, in lower case. */
  readonly header?: string
}
