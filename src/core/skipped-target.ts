/** Targets that a request did not try, and the reasons. */

/** A candidate that is not tried. `key`: absent: with none of its keys. */
export type Skipped = { readonly provider: string; readonly model: string; readonly key?: string; readonly why: string }

/**
 * `why`: `circuit`, `warming` (slow start of a recovered target), `retry_budget`, `budget` (a budget of the client cannot
 * afford it), `unfit` (incompatible with the request), `window` (context window too small), `policy` (it does not satisfy what is
 * required of its data), `when` (the request does not meet its condition; without a key), `preference` (the request excludes it; without a key), or the cooldown of its key or model, such as `rate_limited`.
 */
export type SkippedTarget = Required<Skipped>
