/**
 * The interface through which clients.test.ts drives a client library. Each implementation follows its library's
 * documentation.
 */

/** One turn with a model. `model`: the model name to request. */
export type Client = {
  readonly name: string
  /** The format it uses, as in the gateway's log. */
  readonly style: 'chat' | 'responses' | 'messages' | 'gemini'
  readonly plain: (model: string) => Promise<{ readonly text: string; readonly tokens: readonly unknown[] }>
  /** Passes the pieces of text in order. Throws the client's own error in mid-stream. */
  readonly stream: (model: string, got: (piece: string) => void) => Promise<void>
  /** Asks for the weather with a tool, whole or streamed, returns the results, and continues. */
  readonly tools: (turn: ToolTurn) => Promise<{ readonly calls: readonly Call[]; readonly text: string }>
  /** An object that matches the schema of a city, parsed by the client. */
  readonly structured: (model: string) => Promise<unknown>
  /** Reads an error of the client. Null: it is not the client's own API error class. */
  readonly problem: (error: unknown) => Problem | null
}

export type ToolTurn = {
  readonly stream: boolean
  /** The model that returns calls, and the one that answers after the results. */
  readonly calls: string
  readonly answers: string
  readonly resultOf: (call: Call) => string
}
export type Call = { readonly id: string; readonly name: string; readonly arguments: unknown }
export type Problem = { readonly status: number | undefined; readonly message: string }

export const SYSTEM = 'Be brief.'
export const QUESTION = 'What is the weather in Paris and in Tokyo?'
export const TOOL = { name: 'get_weather', description: 'The weather.' } as const
