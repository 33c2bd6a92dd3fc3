/**
 * Meaning of upstream errors, as data. `src/protocols/errors/common-errors.ts` has the rows that hold for most
 * providers; a provider's file has those that only it uses, or uses differently. `src/protocols/errors/classify.ts`
 * evaluates them.
 */
import type { FailureKind } from './failure.ts'

export type ErrorTable = {
  /** Date on which the rows were last compared with the provider's documentation: `2026-11-21`. */
  readonly checked: string
  /** Evaluated in this order, before the common rows; the first match decides. */
  readonly rows: readonly ErrorRow[]
}

export type ErrorRow = {
  readonly when: ErrorSigns
  readonly kind: FailureKind
  /**
   * The evidence: a recording's ID, an ID of `errors.reported.json`, or an issue or page with its date. A test checks
   * each row against it.
   */
  readonly seen: string
}

/** Conditions of a row. All given conditions must match; there is at least one. */
export type ErrorSigns = {
  /**
   * The HTTP status is one of these. For an error inside a 200: the error's code if that is a status, otherwise 200.
   */
  readonly status?: number | readonly number[]
  /** Its code, type or detail reason is one of these. Case, spaces, `_`, `-` and a trailing `Exception` are ignored. */
  readonly word?: string | readonly string[]
  /**
   * Pattern for the message, or a function that recognises its shape. Rows that disable a key must be anchored (`^`), because a message may quote the client
   * further in. The text is untrusted, so patterns must not backtrack.
   */
  readonly message?: Pick<RegExp, 'test'>
  /** A header of the response, in lower case. */
  readonly header?: string
}
