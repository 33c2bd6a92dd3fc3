import type { Failure } from './failure.ts'

/** One step of a stream: something goes in, any number of things come out, and no I/O is done. Synchronous, since on this path a promise would be made for every chunk. */
export type Stage<In, Out> = {
  push(input: In): readonly Out[]
  /** No more will be pushed: what was still waiting comes out. */
  end(): readonly Out[]
}

/** What is written into. `push` gives false when no more should come for now; `end` is called once, with a failure if it is one. */
export type Sink<T> = { push(item: T): boolean; end(failure?: Failure): void }

/** Two stages as one. */
export const chain = <A, B, C>(first: Stage<A, B>, second: Stage<B, C>): Stage<A, C> => ({
  push: (input) => first.push(input).flatMap((middle) => second.push(middle)),
  end: () => [...first.end().flatMap((middle) => second.push(middle)), ...second.end()],
})

/** Everything a stage makes of these inputs and their end: how tests and whole answers run one. */
export const run = <In, Out>(stage: Stage<In, Out>, inputs: Iterable<In>): Out[] => {
  const out: Out[] = []
  for (const input of inputs) out.push(...stage.push(input))
  out.push(...stage.end())
  return out
}
