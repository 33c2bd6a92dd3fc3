import type { Failure } from './failure.ts'

/** A synchronous stream transformation without I/O: each input returns any number of outputs. A promise for each chunk would be too slow. */
export type Stage<In, Out> = {
  push(input: In): readonly Out[]
  /** End of input: returns whatever is still buffered. */
  end(): readonly Out[]
}

/**
 * A stream consumer. `push` returns false for backpressure. `end` is called at most once, with a failure if the stream
 * failed; not after the producer was aborted.
 */
export type Sink<T> = { push(item: T): boolean; end(failure?: Failure): void }

/** Combines two stages. */
export const chain = <A, B, C>(first: Stage<A, B>, second: Stage<B, C>): Stage<A, C> => ({
  push: (input) => first.push(input).flatMap((middle) => second.push(middle)),
  end: () => [...first.end().flatMap((middle) => second.push(middle)), ...second.end()],
})

/** Returns all outputs of a stage for these inputs and their end. */
export const run = <In, Out>(stage: Stage<In, Out>, inputs: Iterable<In>): Out[] => {
  const out: Out[] = []
  for (const input of inputs) out.push(...stage.push(input))
  out.push(...stage.end())
  return out
}
