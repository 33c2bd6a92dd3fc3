/** Caches the result for each object as long as the object exists, such as what is compiled of a part of the configuration. */
export const memoizeBy = <In extends object, Out extends object>(make: (of: In) => Out): ((of: In) => Out) => {
  const known = new WeakMap<In, Out>()
  return (of) => {
    const before = known.get(of)
    if (before) return before
    const made = make(of)
    known.set(of, made)
    return made
  }
}
