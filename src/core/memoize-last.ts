/** Caches the result for the last argument: several readers of one value share one computation. */
export const memoizeLast = <In extends object, Out>(make: (of: In) => Out): ((of: In) => Out) => {
  let last: { readonly of: In; readonly made: Out } | null = null
  return (of) => {
    if (last?.of !== of) last = { of, made: make(of) }
    return last.made
  }
}
