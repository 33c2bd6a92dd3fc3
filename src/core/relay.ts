/**
 * Endpoints that are routed and not translated: the bytes of the client reach the provider, but for the name of the model, and its
 * answer reaches the client. One row each. Routes, handlers, the OpenAPI document and the plan follow from it.
 */
import type { UnitCount } from './chat.ts'
import type { BodyKind } from './http-exchange.ts'
import type { RelayName } from './relay-names.ts'

export type { RelayName } from './relay-names.ts'

export type RelayRow = {
  /** Below `/v1`, at the gateway and at providers that state no other. */
  readonly path: string
  /** Further paths at the gateway, which clients use. */
  readonly also?: readonly string[]
  readonly body: Extract<BodyKind, 'json' | 'multipart'>
  /** A form that may be JSON too, with its files as addresses or in base64. */
  readonly isJsonToo?: true
  /** The member or the part of the form that names the model. */
  readonly model: string
  /** A request may leave the model out: the default one of the first provider that has the endpoint. */
  readonly isModelOptional?: true
  /**
   * - `json`: an object, kept until it is complete, so that a broken answer can be retried.
   * - `text`: the same for text of any type, such as subtitles.
   * - `bytes`: forwarded as they arrive; nothing is retried after the first.
   */
  readonly answer: 'json' | 'text' | 'bytes'
  /** The member with this value asks for server-sent events, which are forwarded as they arrive. */
  readonly events?: { readonly member: string; readonly value: string }
  /** Each attempt is billed as soon as it is begun: another one follows only if the provider has refused it before. */
  readonly isPaidPerAttempt?: true
  /** The kind of the files of a form. */
  readonly media?: 'AUDIO' | 'IMAGE'
  /** Equal requests have equal answers, so the response cache may answer. */
  readonly isCacheable?: true
  /** What is billed where tokens are not. */
  readonly unit?: Exclude<UnitCount['unit'], 'calls'>
  /** The members or parts whose text is sent to the model. */
  readonly texts: readonly string[]
  /** Members of an answer or event that repeat its text in parts. */
  readonly repeated?: readonly string[]
  /** The part of a form that has the file; absent: `file`. */
  readonly file?: string
  /**
   * Tokens where the answer reports none: bytes of a file for each token of input, tokens of output for each, and those of each of `n`
   * results.
   */
  readonly estimate: {
    readonly bytesPerToken?: number
    readonly outputPerInput: number
    readonly outputPerResult?: number
  }
  /** For the OpenAPI document. */
  readonly summary: string
  readonly description: string
}

/**
 * Of compressed speech: 4,000 bytes and 17 tokens a second, a fifth of them as text (platform.openai.com/docs/pricing, 2026-11-27: $6 a
 * million tokens of audio, $0.006 a minute).
 */
const AUDIO = { bytesPerToken: 240, outputPerInput: 0.2 }

/** With times, speakers or probabilities (developers.openai.com/docs/api-reference/audio, 2026-11-28). */
const SPOKEN = ['segments', 'words', 'logprobs']

/**
 * Of images: the most tokens that a size and a quality take, 1536 × 1024 in high quality
 * (developers.openai.com/docs/guides/image-generation, 2026-11-28). The tokens of an image that is edited are a guess by its bytes.
 */
const IMAGE = { bytesPerToken: 240, outputPerInput: 0, outputPerResult: 6_240 }

const images = {
  model: 'model',
  answer: 'json',
  events: { member: 'stream', value: 'true' },
  isPaidPerAttempt: true,
  unit: 'images',
  texts: ['prompt'],
  estimate: IMAGE,
} as const

export const RELAYS = {
  moderations: {
    path: '/moderations',
    body: 'json',
    model: 'model',
    isModelOptional: true,
    isCacheable: true,
    answer: 'json',
    texts: ['input'],
    estimate: { outputPerInput: 0 },
    summary: 'Classify a text',
    description:
      'In the format of the provider: categories of two vendors differ. Failover uses another key or provider of the same model. Without `model`, the default one of the first provider that has the endpoint.',
  },
  transcriptions: {
    path: '/audio/transcriptions',
    body: 'multipart',
    model: 'model',
    answer: 'text',
    events: { member: 'stream', value: 'true' },
    media: 'AUDIO',
    unit: 'seconds',
    texts: ['prompt'],
    repeated: SPOKEN,
    estimate: AUDIO,
    summary: 'Transcribe speech',
    description:
      'A form with `file` and `model`, and the fields of the provider. The answer has the format that `response_format` asks for; with `stream=true` it is forwarded as events. Failover uses another key or provider of the same model, with the same file.',
  },
  translations: {
    path: '/audio/translations',
    body: 'multipart',
    model: 'model',
    answer: 'text',
    media: 'AUDIO',
    unit: 'seconds',
    texts: ['prompt'],
    repeated: SPOKEN,
    estimate: AUDIO,
    summary: 'Translate speech to English text',
    description: 'As transcriptions, without events.',
  },
  speech: {
    path: '/audio/speech',
    body: 'json',
    model: 'model',
    answer: 'bytes',
    events: { member: 'stream_format', value: 'sse' },
    isPaidPerAttempt: true,
    unit: 'characters',
    texts: ['input', 'instructions'],
    // 15 characters and 21 tokens of audio a second (platform.openai.com/docs/pricing, 2026-11-27: $12 a million, $0.015 a minute).
    estimate: { outputPerInput: 6 },
    summary: 'Generate speech',
    description:
      'The audio is forwarded as it arrives; with `stream_format: "sse"` as events. A broken answer is never ended as if it were complete. After the provider has begun, no other one is tried: each attempt is billed.',
  },
  images: {
    ...images,
    path: '/images/generations',
    body: 'json',
    summary: 'Generate images',
    description:
      'In the format of the provider. With `stream: true` partial images are forwarded as events. After the provider has begun, no other one is tried: each attempt is billed.',
  },
  'image-edits': {
    ...images,
    path: '/images/edits',
    body: 'multipart',
    isJsonToo: true,
    file: 'image',
    media: 'IMAGE',
    summary: 'Edit images',
    description:
      'A form with `image`, or several `image[]`, and `prompt`; or JSON, as the provider reads it: `images` at OpenAI, `image` at xAI. A provider that reads only one of them receives no other. As the generation of images.',
  },
  'image-variations': {
    path: '/images/variations',
    body: 'multipart',
    model: 'model',
    isModelOptional: true,
    file: 'image',
    media: 'IMAGE',
    answer: 'json',
    isPaidPerAttempt: true,
    unit: 'images',
    texts: ['prompt'],
    estimate: IMAGE,
    summary: 'Create variations of an image',
    description: 'A form with `image`. Without `model`, the default one of the first provider that has the endpoint.',
  },
  rerank: {
    path: '/rerank',
    also: ['/v2/rerank'],
    body: 'json',
    model: 'model',
    isCacheable: true,
    answer: 'json',
    unit: 'queries',
    texts: ['query', 'documents'],
    estimate: { outputPerInput: 0 },
    summary: 'Rank documents by their relevance to a query',
    description:
      'In the format of the provider: Cohere, Jina and vLLM read `top_n` and answer `results`, Voyage reads `top_k` and answers `data`. A request with either goes only to providers that read it. Failover uses another key or provider of the same model.',
  },
} as const satisfies { readonly [name in RelayName]: RelayRow }

/** The style of the WebSocket that is relayed, and its name among what providers have. */
export const REALTIME = 'realtime'

/** Names and rows, in their order. */
export const RELAY_ROWS: readonly (readonly [name: RelayName, row: RelayRow])[] =
  // `Object.entries` types the names as strings.
  Object.entries(RELAYS) as unknown as readonly (readonly [RelayName, RelayRow])[]

/** What a provider has for an endpoint. */
export type RelaySupport = {
  /** Path below its base URL, if it differs from the endpoint's. `{model}` is replaced by the model. */
  readonly path?: string
  /** Known models for it, the default first. */
  readonly models: readonly string[]
  /** The only kind of body that it reads; absent: all of the endpoint. */
  readonly body?: RelayRow['body']
  /** Members of a request that it refuses, by their values as text: a request with one goes to another provider. */
  readonly refuses?: { readonly [member: string]: RegExp }
}
