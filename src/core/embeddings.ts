/** Embeddings in our words: what a client wants turned into vectors, and the vectors; and a wire format that carries both. */
import type { Extra, Setting } from './chat.ts'
import type { Failure, Outcome } from './failure.ts'
import type { HeaderLookup } from './headers.ts'
import type { Json } from './json.ts'
import type { Encoded } from './protocol.ts'

export type EmbeddingsRequest = {
  readonly model: string
  /** Never empty. */
  readonly inputs: readonly EmbeddingInput[]
  /** How the client reads vectors: as lists of numbers, or as base64 of 32-bit floats, the lowest byte first. */
  readonly encoding: Encoding
  /** Shorter vectors than the model's own. */
  readonly dimensions?: Setting<number>
  readonly purpose?: Setting<Purpose>
  readonly user?: Setting<string>
  /** Members the middle has no word for. */
  readonly extras: readonly Extra[]
}

export type EmbeddingInput = { readonly at: string } & (
  | { readonly text: string }
  /** Of the model's own tokenizer: only an upstream that takes tokens can be asked. */
  | { readonly tokens: readonly number[] }
)

export type Encoding = 'float' | 'base64'

/** What the vectors are for. Some models make other ones of a question than of what shall be found by it. */
export type Purpose = 'document' | 'query' | 'classification' | 'clustering' | 'similarity'

/** As numbers, or as base64 of 32-bit floats. */
export type Vector = readonly number[] | string

export type EmbeddingsAnswer = {
  readonly model?: string
  /** In the order of the inputs, as far as the upstream says which is which. */
  readonly vectors: readonly Vector[]
  /** Tokens of all inputs, if the upstream counts them. */
  readonly input?: number
}

export type EmbeddingsProtocolName =
  | 'openai-embeddings'
  | 'gemini-embeddings'
  | 'vertex-embeddings'
  | 'cohere-embeddings'

/** A wire format of embeddings as providers speak it. Pure, and never throws on input. */
export type EmbeddingsProtocol = {
  readonly name: EmbeddingsProtocolName
  /** Path below the base URL; `{model}` stands for the model. */
  readonly path: string
  /** Absent: it is the format clients speak, and their requests pass as they are. */
  readonly encodeRequest?: (request: EmbeddingsRequest, target: { readonly model: string }) => Encoded
  /** A failure if the body is an error, or if its vectors are invalid or cannot be assigned to the inputs. */
  readonly decodeAnswer: (body: Json) => Outcome<EmbeddingsAnswer>
  readonly decodeFailure: (status: number, body: Json | undefined, headers: HeaderLookup) => Failure
}
