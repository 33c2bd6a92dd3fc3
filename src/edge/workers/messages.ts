/** What is said between the workers and the process that started them, over the channel that `fork` opens. */

/** What one worker wants of all of them. */
export type Question =
  /** Their pages of metrics. */
  | { readonly about: 'metrics' }
  /** That whoever answers this response in the background lets go of it. */
  | { readonly about: 'cancel'; readonly response: string; readonly owner: string }

export type FromWorker =
  | {
      readonly say: 'listening'
      /** For those that come after it to listen there too. */
      readonly port: number
      readonly host: string | undefined
      /** How lines are written, which only who has read the configuration knows. */
      readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
      readonly logFormat: 'pretty' | 'json'
      /** ms that ending in order may take. */
      readonly grace: number
    }
  /** It ends in order, within so many ms. */
  | { readonly say: 'ending'; readonly within: number }
  | { readonly say: 'ask'; readonly id: number; readonly question: Question }
  | { readonly say: 'told'; readonly id: number; readonly answer: string }
  /** It lives. */
  | { readonly say: 'alive' }

export type FromSupervisor =
  /** All listen, so many ms after the start. */
  | { readonly do: 'announce'; readonly ms: number }
  /** The first time: in order. The second: at once. */
  | { readonly do: 'end'; readonly time: number; readonly signal: string }
  | { readonly do: 'reload' }
  | { readonly do: 'tell'; readonly id: number; readonly question: Question }
  | { readonly do: 'told'; readonly id: number; readonly answer: string }
  /** Is to give a sign of life. */
  | { readonly do: 'sign' }
