/** A client library as the table of clients.test.ts asks for it. Each does what its own documentation shows, no more. */

/** One turn at a model. `model`: the name to ask for. */
export type Client = {
  readonly name: string
  /** The format it speaks, as the gateway's log says it. */
  readonly style: 'chat' | 'responses' | 'messages'
  readonly plain: (model: string) => Promise<{ readonly text: string; readonly tokens: readonly unknown[] }>
  /** The pieces of text in the order they came. Throws what the client throws in the middle of a stream. */
  readonly stream: (model: string, got: (piece: string) => void) => Promise<void>
  /** Asks for the weather with a tool, whole or streamed, gives the results back, and asks on. */
  readonly tools: (turn: ToolTurn) => Promise<{ readonly calls: readonly Call[]; readonly text: string }>
  /** An object by the schema of a city, parsed by the client. */
  readonly structured: (model: string) => Promise<unknown>
  /** What it makes of an error: null, if it is not the client's own class for errors of an API. */
  readonly problem: (error: unknown) => Problem | null
}

export type ToolTurn = {
  readonly stream: boolean
  /** The model that calls, and the one that answers once it has the results. */
  readonly calls: string
  readonly answers: string
  readonly resultOf: (call: Call) => string
}
export type Call = { readonly id: string; readonly name: string; readonly arguments: unknown }
export type Problem = { readonly status: number | undefined; readonly message: string }

export const SYSTEM = 'Be brief.'
export const QUESTION = 'What is the weather in Paris and in Tokyo?'
export const TOOL = { name: 'get_weather', description: 'The weather.' } as const
