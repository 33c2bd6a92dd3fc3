import type { Accepts } from './accepts.ts'
import type { CacheMark } from './cache-mark.ts'
import type { ChatAnswer, ChatEvent, ChatRequest, ClientProtocolName, UpstreamProtocolName } from './chat.ts'
import type { TextOrBytes } from './encoded-text.ts'
import type { Failure, Outcome } from './failure.ts'
import type { HeaderLookup } from './headers.ts'
import type { Json, JsonObject } from './json.ts'
import type { SpendStanding } from './spend-standing.ts'
import type { Stage } from './stage.ts'
import type { OverrideName } from './target-override.ts'

/**
 * One message of a stream: a server-sent event, a line or a binary message. `event`: its name, if it has one. `raw`: a
 * server-sent event as received, with its final blank line, for pass-through. Bytes: one or more events that differ from
 * `data` only in their text; valid until the step has been processed. `oversized`: the message exceeded
 * the reader's limit and was dropped; no frame follows (a `too_large` failure).
 */
export type Frame = {
  readonly event?: string
  readonly data: string
  readonly raw?: TextOrBytes
  readonly oversized?: boolean
}

/** How the bytes of a stream are split into frames. Absent in a protocol: server-sent events. */
export type Framing = {
  /** Media type of a stream in `accept` and `content-type`: `application/x-ndjson`. */
  readonly mediaType: string
  /** `most`: maximum size of a message in bytes; a longer one becomes an `oversized` frame. A message with a wrong checksum becomes a frame with unreadable `data`. */
  readonly frames: (most: number) => Stage<Uint8Array, Frame>
}

/** Decodes frames to events. */
export type StreamDecoder = Stage<Frame, ChatEvent> & {
  /**
   * The format's terminal event has been read (`[DONE]`, `message_stop`, `response.completed`): nothing that follows
   * belongs to the answer. Absent: the format has none, or only the end of the body is one.
   */
  readonly done?: boolean
  /** The answer is complete unless more content follows: its last finish reason may be one of many. */
  readonly mayBeDone?: boolean
}

/** Reads a stream's bytes. `done` and `mayBeDone`: as of its decoder. */
export type StreamReader = Stage<Uint8Array, StreamStep> & { readonly done?: boolean; readonly mayBeDone?: boolean }

/**
 * A wire format of providers: encodes requests and decodes answers. Pure, and never throws on input: unreadable input is a
 * `malformed` failure, and request members that the format cannot express are reported as a `Loss`.
 */
export type UpstreamProtocol = {
  readonly name: UpstreamProtocolName
  /** The name in `<PROVIDER>_STYLES` and the style in logs: `chat`, `responses`, `messages`, `gemini`. */
  readonly style: string
  /** Path below a provider's base URL: `/chat/completions`. `{model}` is replaced by the model. */
  readonly path: string
  /** Path for streams, if it differs. */
  readonly streamPath?: string

  /** The member of a block that marks the end of a cached prefix. Absent: it depends on the provider. */
  readonly cacheMark?: CacheMark

  /**
   * Adds marks for the ends of prompt prefixes to a body of this format that has none. Returns the same body if it has, or if the model
   * takes none. Absent: requests of this format need no marks, or have none.
   */
  readonly withBreakpoints?: (body: JsonObject, model: string) => JsonObject

  /** Headers that every upstream of this format requires. */
  readonly headers?: { readonly [name: string]: string }

  /** Requests of this format name beta features. */
  readonly takesBetas?: true

  readonly encodeRequest: (request: ChatRequest, target: EncodeTarget) => Encoded

  /**
   * Restores tools in the decoded answer to a request that `encodeRequest` changed: shortened names, wrapped free-form
   * input. Applied after `decodeAnswer` and `decodeStream`. Undefined or absent: nothing to restore.
   */
  readonly restore?: (request: ChatRequest) => Stage<ChatEvent, ChatEvent> | undefined

  /** Decodes a whole answer to the events of an equivalent stream. An error body becomes a `failure` event. */
  readonly decodeAnswer: (body: Json) => readonly ChatEvent[]
  /** Stream events are independent: after a `malformed` failure the decoder continues with the next event. */
  readonly lenientEvents?: boolean
  readonly framing?: Framing
  /** Vendors store the answers of this format, so that a later request can continue one by its ID. */
  readonly storesAnswers?: true
  /** Encrypted reasoning of this format does not show which endpoint has issued it. */
  readonly hidesIssuer?: true
  /** Creates a stream decoder. Its `end` returns a `truncated` failure event if the answer is incomplete. */
  readonly decodeStream: () => StreamDecoder
  /** How answers with several choices are decoded. Absent: one choice only; requests for more are incompatible. */
  readonly choices?: UpstreamChoices
  /** Classifies an error answer: status 400 and up, or an error inside a 200 or a stream. */
  readonly decodeFailure: (status: number, body: Json | undefined, headers: HeaderLookup) => Failure
}

/** How an upstream format answers with several choices (OpenAI's `n`). */
export type UpstreamChoices = {
  /** Maximum number of choices in a request. Absent: unknown. */
  readonly most?: number
  /** Several choices are available in whole answers only; for a streaming client a whole answer is requested. */
  readonly wholeOnly?: true
  /**
   * Splits a body or a stream event into one body per choice, by the choice's index. Each contains that choice alone,
   * as the first, and all other members. Empty: the body has no choice (usage, an error) and applies to all.
   */
  readonly split: (body: Json) => ReadonlyMap<number, Json>
}

/** A wire format of clients: decodes requests and encodes answers. */
export type ClientProtocol = {
  readonly name: ClientProtocolName
  /** The API style in logs: `chat`. */
  readonly style: string
  /** Path below the client's base URL: `/chat/completions`. */
  readonly path: string
  /**
   * Decodes a body. `path`: that of the request, for a format with members in its path (the model, whether to stream);
   * absent where the body did not come by its own path, as in `POST /v1/route`: then such members are in the body. `query`: that of
   * the request, without credentials.
   */
  readonly decodeRequest: (body: JsonObject, path?: string, query?: string) => Outcome<ChatRequest>
  readonly encodeAnswer: (answer: ChatAnswer, context: AnswerContext) => JsonObject
  /** Writes a stream in this format from the events alone. */
  readonly encodeStream: (context: AnswerContext) => StreamWriter<string>
  /** Encodes an error body. */
  readonly encodeFailure: (failure: Failure, context: FailureContext) => JsonObject

  /** Headers besides `authorization` in which clients of this format send their key. */
  readonly keyHeaders?: readonly string[]
  /** Query parameters in which clients of this format send their key. */
  readonly keyParameters?: readonly string[]
  /** The time in ms within which the client expects an answer; undefined: it states none. */
  readonly deadline?: (headers: HeaderLookup) => number | undefined
  /** How a stream for a request with this query is sent. Absent: as server-sent events, with comments of the gateway. */
  readonly streamForm?: (query: string) => StreamForm
  /** The header in which clients of this format look for the request's ID, besides `x-request-id`. */
  readonly errorIdHeader?: string
  /** The schema of its errors in the OpenAPI document. Absent: that of OpenAI's errors. */
  readonly errorSchema?: string
  /** The names under which clients of this format look for their rate limits. */
  readonly rateLimitNames: RateLimitNames
  /**
   * Headers that show people how much of their own budget is used, and the refusal of one that is used up. Absent: clients of this
   * format have no place for it. `now`: ms since 1970.
   */
  readonly spend?: {
    readonly headers: (standing: SpendStanding) => Readonly<Record<string, string>>
    readonly refusal: (failure: Failure, now: number) => Failure
  }
  /** Whether a request without a stated style has this format. Absent: it does only if no other format recognises it. */
  readonly recognises?: (body: JsonObject, headers: HeaderLookup) => boolean
  /**
   * Adds the cost to the piece of a stream that ends it, for clients that request it; null: the piece is not the end.
   * Absent: streams of this format have no place for a cost.
   */
  readonly statesCost?: (piece: string, cost: () => JsonObject | null, context: AnswerContext) => string | null
  /** Answers repeat members of the request, also those that only identify the client's user. */
  readonly repeatsRequest?: true
  /** The body without what clients change from request to request although it does not change the answer. */
  readonly steadyBody?: (body: JsonObject) => JsonObject

  /**
   * The body of a reshaped request in this format's own shape. Absent: neither answers nor stored turns repeat parts of the
   * body.
   */
  readonly inOwnShape?: (request: ChatRequest, body: JsonObject) => JsonObject
  /**
   * Ranges that the format's vendor publishes, of members that compatible servers take in wider ones. A refused value
   * outside of them is an error of the request.
   */
  readonly ranges?: { readonly [member: string]: readonly [least: number, most: number] }
  /** The format's path for counting the tokens of a request, if it has one. */
  readonly counting?: TokenCounting
  /** Pass-through. Absent: no upstream uses this format. */
  readonly passing?: SameFormat
  /** Writes answers with several choices. Absent: the format cannot request several. */
  readonly encodeChoices?: ClientChoices
}

/** How the pieces of a stream are sent. */
export type StreamForm = {
  /** Clients skip comments between events. */
  readonly comments: boolean
  /** The media type. Absent: that of server-sent events. */
  readonly mediaType?: string
  /** Writes what the format's own writer writes, in another form. Absent: as it is. */
  readonly shaped?: (writer: StreamWriter) => StreamWriter
}

/** The headers that report a client's rate limits, in one format's names. */
export type RateLimitNames = {
  readonly requests: RateLimitHeaders
  readonly tokens: RateLimitHeaders
  /** How the time until a limit is full again is written: as a duration (`6m0s`), or as a date of RFC 3339. */
  readonly resetAs: 'duration' | 'date'
}

export type RateLimitHeaders = { readonly limit: string; readonly remaining: string; readonly reset: string }

/** How a client format writes several choices. The count is `settings.choices` of the request. */
export type ClientChoices = {
  /** `answers` by index. Shared members (id, model, usage) come from the first. */
  readonly whole: (answers: readonly ChatAnswer[], context: AnswerContext) => JsonObject
  /** Writes a stream from steps with `choices`. */
  readonly stream: (context: AnswerContext) => StreamWriter<string>
}

/** Pass-through: client and upstream use the same format. */
export type SameFormat = {
  /**
   * Changes that every provider needs, such as the model name and the request for usage in a stream. Shares all other
   * members with `body`.
   */
  readonly adaptRequest: (body: JsonObject, target: EncodeTarget) => JsonObject
  /** Lowers the output limit of a body to this many tokens, and what must be below it. `paths`: the changed members. */
  readonly lowerOutput: (body: JsonObject, limit: number) => LoweredBody
  /** Paths in `body` of the list entries that `adaptRequest` removes, in order. Absent: it removes none. */
  readonly omittedEntries?: (body: JsonObject, target: EncodeTarget) => readonly string[]
  /** The members of settings that operators may change for a target. Absent: none can be changed in a body of this format. */
  readonly settings?: { readonly [name in OverrideName]?: SettingMember }
  /** Forwards the upstream's frames, without parts that the client did not request. */
  readonly passStream: (context: AnswerContext) => StreamWriter
  /**
   * Assembles the text of the whole answer from the frames of a complete stream. Null: not possible from these frames;
   * use the events.
   */
  readonly assembleAnswer: (frames: readonly Frame[]) => string | null
  /**
   * Removes parts of a whole answer that the client did not request. `body`: the JSON value of the text, if it has been
   * parsed. Without this function, the text is forwarded unchanged.
   */
  readonly passAnswer?: (source: string, context: AnswerContext, body?: Json) => string
}

/**
 * The member of a setting. `encode`: its value there, if that is not the canonical one; undefined: it has none. `isRequired`: a body
 * without it is refused.
 */
export type SettingMember = {
  readonly path: string
  readonly encode?: (value: Json, body: JsonObject) => Json | undefined
  readonly isRequired?: true
}

export type LoweredBody = { readonly body: JsonObject; readonly paths: readonly string[] }

/** A wire format in both directions. */
export type Protocol = UpstreamProtocol &
  ClientProtocol & { readonly name: ClientProtocolName & UpstreamProtocolName; readonly passing: SameFormat }

export type TokenCounting = {
  /** Suffix of its path: `/count_tokens`. */
  readonly suffix: string
  /** The end of the format's own path that the suffix replaces. Absent: none. */
  readonly instead?: string
  /** Decodes the request; members that only an answer needs are optional. */
  readonly decodeRequest: ClientProtocol['decodeRequest']
  /** The members that the path accepts; clients send all members of the request. Absent: it accepts them all. */
  readonly accepts?: ReadonlySet<string>
  /** The token count; undefined if the body contains none. */
  readonly decodeAnswer: (body: Json) => number | undefined
  readonly encodeAnswer: (tokens: number) => JsonObject
}

/**
 * One step of an answer: the upstream's frame, if any, and its decoded events. A step without a frame is a failure that
 * the gateway detected, or a whole answer (its text is in `whole`).
 */
export type StreamStep = {
  readonly frame?: Frame
  readonly whole?: string
  /** The JSON value of `whole`, from which the events were decoded. */
  readonly body?: Json
  /**
   * Events of the whole answer. For several choices: the content of all choices in the received order, and one `finish`
   * after the last choice has finished.
   */
  readonly events: readonly ChatEvent[]
  /** For several choices: the blocks and the finish of each choice with events in this step. */
  readonly choices?: readonly ChoiceEvents[]
}

/** Events of one choice. `start`, `usage`, `failure` and `ping` belong to the whole answer. */
export type ChoiceEvents = { readonly index: number; readonly events: readonly ChatEvent[] }

/**
 * Converts steps to the wire, as text or as its bytes; each output consists of complete wire events. A `failure` event
 * writes the in-band error, and later steps write nothing. `end` returns what completes an answer (`data: [DONE]`),
 * nothing after a failure.
 */
export type StreamWriter<Piece extends TextOrBytes = TextOrBytes> = Stage<StreamStep, Piece> & {
  /** A keep-alive in this format. Where clients count events, it is an event, also before the answer. */
  keepAlive(): string
  /** What follows `end` in a write of its own, for clients that read it only there. Absent or empty: nothing. */
  apart?(): string
  /** The answer as keep-alives have begun it; null: they said nothing of it. Absent: they never do. */
  begun?(): BegunAnswer | null
}

export type EncodeTarget = {
  /** Model name at the upstream. */
  readonly model: string
  /** The provider instance, which cannot read reasoning that another one has encrypted. */
  readonly instance?: string | undefined
  /** Whether another endpoint is known to have encrypted this reasoning. Absent: no issuer is known. */
  readonly isEncryptedElsewhere?: ((encrypted: string) => boolean) | undefined
  /** Output limit of the model in tokens, for formats that demand one. */
  readonly outputLimit?: number | undefined
  /** The model supports reasoning effort, according to the catalogue. */
  readonly reasons?: boolean | undefined
  /** The provider accepts reasoning of earlier turns (`reasoning_content`); some models require it. */
  readonly acceptsReasoning?: boolean | undefined
  /** Members that the provider accepts in this format, if known. */
  readonly accepts?: Accepts | undefined
  /** The provider supports custom tools in chat completions; for others they become functions with one string argument. */
  readonly supportsCustomTools?: boolean | undefined
  /** The provider returns encrypted reasoning on request, and the client's format can return it. */
  readonly encryptsReasoning?: boolean | undefined
  /** The cache marks that the model takes in content parts. */
  readonly cacheMark?: CacheMark | undefined
  /** The provider reads Claude Code's billing line. */
  readonly readsBillingLine?: boolean | undefined
}

export type Encoded = {
  readonly body: JsonObject
  readonly losses: readonly Loss[]
  /**
   * The client member from which each member of `body` was written, to report members that a provider removes later: `{
   * stop: 'stop_sequences' }`. A nested member may have its own entry: `reasoning.effort`.
   */
  readonly from: { readonly [member: string]: string }
}

/**
 * A request member that the target's format cannot express, by its path in the client's body. `essential`: without it
 * the request has another meaning. `because`: the cause, if it is a combination of members; it follows the model's name in an
 * error message: `takes a schema or tools, not both in one request`.
 */
export type Loss = { readonly path: string; readonly essential: boolean; readonly because?: string }

/** The parts of the request that encoding its answer requires. */
export type AnswerContext = {
  readonly request: ChatRequest
  /** The client's body, for formats whose answers repeat parts of the request. */
  readonly body: JsonObject
  /** Generates an ID, unique in the process: `id('resp')` returns `resp_…`. */
  readonly id: (prefix: string) => string
  /** Seconds since 1970, for answers without a timestamp. */
  readonly created: number
  /** The upstream model, for answers that do not name it. */
  readonly model: string
  /** The provider instance that answers, which is written into the reasoning that it encrypts. */
  readonly issuer?: string | undefined
  /** Estimates the input tokens of the request, for streams that state them before the upstream has. */
  readonly inputTokens?: () => number
  /** Called with the path of output that the client's format cannot express: `output.image`. */
  readonly onLoss?: (path: string) => void
  /** Request ID for errors in the stream. */
  readonly requestId?: string
  /** Storage members of the response, for formats whose responses can be retrieved. */
  readonly storage?: StorageInfo | undefined
  /** The answer was begun before a target had answered; its stream continues this. */
  readonly begun?: BegunAnswer | undefined
}

/** An answer whose first events were sent while no target had answered: its state, and the number of events. */
export type BegunAnswer = { readonly response: JsonObject; readonly events: number }

/** Storage members of a response. */
export type StorageInfo = {
  readonly id: string
  /** ID of the response it continues. */
  readonly previous: string | null
  /** The response can be retrieved later. */
  readonly store: boolean
  readonly background: boolean
}

export type FailureContext = {
  readonly requestId: string
  /** Content has been sent, so the error is written to the stream with code `stream_interrupted` (a shutdown keeps its own code). */
  readonly interrupted?: boolean
  readonly attempts?: readonly AttemptSummary[]
}

/** One entry of the error's `attempts`. */
export type AttemptSummary = {
  readonly provider: string
  readonly model: string
  readonly key: string
  readonly status: number | null
  readonly kind: string
  readonly ms: number
}
