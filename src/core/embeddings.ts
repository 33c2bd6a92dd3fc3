/** The canonical form of embeddings requests and answers, and the wire formats of providers. */
import type { Extra, Setting } from './chat.ts'
import type { Failure, Outcome } from './failure.ts'
import type { HeaderLookup } from './headers.ts'
import type { Json, JsonObject } from './json.ts'
import type { Encoded } from './protocol.ts'

export type EmbeddingsRequest = {
  readonly model: string
  /** Never empty. */
  readonly inputs: readonly EmbeddingInput[]
  /** Encoding of the returned vectors: lists of numbers, or base64 of little-endian 32-bit floats. */
  readonly encoding: Encoding
  /** Requested vector length, if shorter than the model's default. */
  readonly dimensions?: Setting<number>
  readonly purpose?: Setting<Purpose>
  readonly user?: Setting<string>
  /** Members without a canonical equivalent. */
  readonly extras: readonly Extra[]
}

/** `sent`: as it stands in the client's body. */
export type EmbeddingInput = { readonly at: string; readonly sent: Json } & (
  | { readonly text: string }
  /** Tokens of the model's own tokenizer. Only an upstream that accepts tokens can serve them. */
  | { readonly tokens: readonly number[] }
  /** Content that is not only text, such as images. Only an upstream of the client's own format can serve it. */
  | { readonly parts: readonly Json[] }
)

export type Encoding = 'float' | 'base64'

/** The use of the vectors. Some models return different vectors for a query than for a document. */
export type Purpose = 'document' | 'query' | 'classification' | 'clustering' | 'similarity'

/** A list of numbers, or base64 of 32-bit floats. */
export type Vector = readonly number[] | string

export type EmbeddingsAnswer = {
  readonly model?: string
  /** In the order of the inputs, if the upstream identifies them. */
  readonly vectors: readonly Vector[]
  /** Tokens of all inputs, if the upstream counts them. */
  readonly input?: number
}

export type EmbeddingsProtocolName =
  | 'openai-embeddings'
  | 'gemini-embeddings'
  | 'vertex-embeddings'
  | 'cohere-embeddings'

/** An embeddings wire format of providers. Pure; never throws on input. */
export type EmbeddingsProtocol = {
  readonly name: EmbeddingsProtocolName
  /** Path below the base URL; `{model}` is replaced by the model. */
  readonly path: string
  readonly encodeRequest: (request: EmbeddingsRequest, target: { readonly model: string }) => Encoded
  /** A failure if the body is an error, or if its vectors are invalid or cannot be assigned to the inputs. */
  readonly decodeAnswer: (body: Json) => Outcome<EmbeddingsAnswer>
  readonly decodeFailure: (status: number, body: Json | undefined, headers: HeaderLookup) => Failure
}

/** The inputs of one call, which are all of the request or some of them. */
export type EmbeddingsPart = {
  readonly request: EmbeddingsRequest
  readonly inputs: readonly EmbeddingInput[]
  readonly model: string
}

/** A shape in which clients ask for embeddings. Pure; never throws on input. */
export type EmbeddingsShape = {
  /** The provider format that takes bodies of this shape. */
  readonly format: EmbeddingsProtocolName
  /** `path`, `query`: for shapes with members of the request in them. */
  readonly decodeRequest: (body: JsonObject, path?: string, query?: string) => Outcome<EmbeddingsRequest>
  /** The client's body for some of its inputs, at an upstream of that format. Null: it has members that this format lacks. */
  readonly ownBody: (body: JsonObject, part: EmbeddingsPart) => JsonObject | null
  /** Whether the answer of such an upstream can pass through: it is complete and in the encoding that was requested. */
  readonly isReadable: (answer: Json, encoding: Encoding) => boolean
  /** `model`: for an upstream that returned none. */
  readonly encodeAnswer: (
    answer: EmbeddingsAnswer,
    asked: { readonly encoding: Encoding; readonly model: string },
  ) => JsonObject
}
