/**
 * The contract between a thread's program and its client. A program is the module `*-thread.ts` that exports `program`; its
 * type says what the client can call. Arguments, values and events are plain data, or buffers that are moved.
 */

/** Posts an event to the client, after the answers before it. */
export type Emit<Events> = <Name extends keyof Events & string>(event: Name, value: Events[Name]) => void

/** A call that runs. */
export type ThreadCall = {
  /** Set by a method that can be cancelled: called when the client no longer waits. The call is answered nevertheless. */
  onCancel: (() => void) | null
}

/**
 * Methods have one argument. The result of a call is the value of its method; what the method throws is a problem. The result
 * of a post is ignored, and its exception ends the thread.
 */
type ThreadMethods = { readonly [method: string]: (argument: never, call: ThreadCall) => unknown }

export type ThreadService<Methods = ThreadMethods> = {
  readonly methods: Methods
  /** Completes what has begun. The thread ends after it, and after the answers. Absent: nothing is to be done. */
  readonly close?: () => void | Promise<void>
}

/** Starts the service of a thread. */
// biome-ignore lint/suspicious/noExplicitAny: an emitter of any events; a program states which.
export type ThreadProgram = (data: never, emit: Emit<any>) => ThreadService | Promise<ThreadService>

export type DataOf<Program extends ThreadProgram> = Parameters<Program>[0]
export type MethodsOf<Program extends ThreadProgram> = Awaited<ReturnType<Program>>['methods']
export type EventsOf<Program extends ThreadProgram> =
  Parameters<Program>[1] extends Emit<infer Events> ? Events : Record<never, never>
export type ArgumentOf<Method> = Method extends (argument: infer Argument, call: ThreadCall) => unknown
  ? Argument
  : never
export type ValueOf<Method> = Method extends (...given: never) => infer Value ? Awaited<Value> : never

/** Messages to a thread. A call has a number, under which it is answered or cancelled. */
export type ToThread =
  | { readonly method: string; readonly argument: unknown; readonly number?: number }
  | { readonly cancel: number }
  | { readonly close: true }

/** `problem` contains no path. */
export type ThreadAnswer = { readonly number: number } & ({ readonly value: unknown } | { readonly problem: string })

/** Messages of a thread. `ready`: its program is loaded. */
export type FromThread =
  | { readonly answers: readonly ThreadAnswer[] }
  | { readonly event: string; readonly value: unknown }
  | { readonly ready: true }

/**
 * There is no answer. `refused`: the thread has not received the call. `late`: the limit is over; the call was cancelled, or
 * may still take place. `ended`: the thread has ended, `isReady` with its program loaded.
 */
export type ThreadFailure = {
  readonly problem: string
  readonly cause: 'refused' | 'late' | 'ended'
  readonly isReady: boolean
}

/** The result of a call, or `problem`, with a `cause` unless the method has thrown it. */
export type ThreadResult<Value> = { readonly value: Value } | { readonly problem: string } | ThreadFailure
