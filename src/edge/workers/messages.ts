/** Messages between the workers and their supervisor, over the IPC channel of `fork`. */

/** A question of one worker to all of them. */
export type Query =
  /** Their metrics pages. */
  | { readonly about: 'metrics' }
  /** Cancels a background response, in whichever worker it runs. */
  | { readonly about: 'cancel'; readonly response: string; readonly owner: string }

export type FromWorker =
  | {
      readonly type: 'listening'
      /** The address for the workers started later. */
      readonly port: number
      readonly host: string | undefined
      /** Log settings for the supervisor, which does not read the configuration. */
      readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
      readonly logFormat: 'pretty' | 'json'
      /** Time limit of a graceful shutdown, in ms. */
      readonly grace: number
    }
  /** The worker shuts down gracefully, within `within` ms. */
  | { readonly type: 'ending'; readonly within: number }
  | { readonly type: 'query'; readonly id: number; readonly query: Query }
  | { readonly type: 'reply'; readonly id: number; readonly reply: string }
  | { readonly type: 'pong' }

export type FromSupervisor =
  /** All workers are listening, `ms` after the start. */
  | { readonly type: 'announce'; readonly ms: number }
  /** Shut down. `time`: 1 is gracefully, 2 at once, 3 immediately without cleanup. */
  | { readonly type: 'end'; readonly time: number; readonly signal: string }
  | { readonly type: 'reload' }
  | { readonly type: 'query'; readonly id: number; readonly query: Query }
  | { readonly type: 'reply'; readonly id: number; readonly reply: string }
  | { readonly type: 'ping' }
