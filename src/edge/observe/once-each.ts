import { summarize } from '../../core/summary.ts'

/** The same for the same object, asked again before another is: what several who hear of something one after the other would each make. */
export const onceEach = <In extends object, Out>(make: (of: In) => Out): ((of: In) => Out) => {
  let last: { readonly of: In; readonly made: Out } | null = null
  return (of) => {
    if (last?.of !== of) last = { of, made: make(of) }
    return last.made
  }
}

/** The summary of an exchange that is over. */
export const summaryOf = onceEach(summarize)
