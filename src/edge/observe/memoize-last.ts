import { summarize } from '../../core/trace-summary.ts'

/** Caches the result for the last argument: several listeners of one event share one computation. */
export const memoizeLast = <In extends object, Out>(make: (of: In) => Out): ((of: In) => Out) => {
  let last: { readonly of: In; readonly made: Out } | null = null
  return (of) => {
    if (last?.of !== of) last = { of, made: make(of) }
    return last.made
  }
}

/** The summary of a finished exchange. */
export const summaryOf = memoizeLast(summarize)
