import type { Accepts } from './accepts.ts'
import type { ChatAnswer, ChatEvent, ChatRequest, ClientProtocolName, UpstreamProtocolName } from './chat.ts'
import type { EncodedText } from './encoded-text.ts'
import type { Failure, Outcome } from './failure.ts'
import type { HeaderLookup } from './headers.ts'
import type { Json, JsonObject } from './json.ts'
import type { Stage } from './stage.ts'

/**
 * One message of a stream: a server-sent event, a line or a binary message. `event`: its name, if it has one. `raw`: the
 * text of a server-sent event with its final blank line, for pass-through. `oversized`: the message exceeded the reader's
 * limit and was dropped; no frame follows (a `too_large` failure).
 */
export type Frame = {
  readonly event?: string
  readonly data: string
  readonly raw?: string
  readonly oversized?: boolean
}

/** How the bytes of a stream are split into frames. Absent in a protocol: server-sent events. */
export type Framing = {
  /** Media type of a stream in `accept` and `content-type`: `application/x-ndjson`. */
  readonly mediaType: string
  /** `most`: maximum size of a message in bytes; a longer one becomes an `oversized` frame. A message with a wrong checksum becomes a frame with unreadable `data`. */
  readonly frames: (most: number) => FrameReader
}

/** Splits bytes into frames. `atBoundary`: the last frame is complete and no byte of the next has been read. Absent: unknown. */
export type FrameReader = Stage<Uint8Array, Frame> & { readonly atBoundary?: boolean }

/**
 * Decodes frames to events. `matchRepeated` matches the frames from byte `from` on that differ from the last decoded frame
 * only in their text; undefined: decode the next frame normally. `latin1`: the bytes as Latin-1, one character per byte.
 */
export type StreamDecoder = Stage<Frame, ChatEvent> & {
  /**
   * The format's terminal event has been read (`[DONE]`, `message_stop`, `response.completed`): nothing that follows
   * belongs to the answer. Absent: the format has none, or only the end of the body is one.
   */
  readonly done?: boolean
  matchRepeated?(bytes: Uint8Array, latin1: string, from: number): RepeatMatch | undefined
}

/** The events of the matched frames, and the byte index after the last of them. */
export type RepeatMatch = { readonly events: readonly ChatEvent[]; readonly end: number }

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

  /** Headers that every upstream of this format requires. */
  readonly headers?: { readonly [name: string]: string }

  readonly encodeRequest: (request: ChatRequest, target: EncodeTarget) => Encoded

  /**
   * For an answer to a request that `encodeRequest` wrote: undoes in its events what that had to do to the tools (names
   * shortened, free-form input wrapped), behind `decodeAnswer` and `decodeStream`. Undefined, or absent: nothing was done.
   */
  readonly restore?: (request: ChatRequest) => Stage<ChatEvent, ChatEvent> | undefined

  /** Decodes a whole answer to the events of an equivalent stream. An error body becomes a `failure` event. */
  readonly decodeAnswer: (body: Json) => readonly ChatEvent[]
  /** Stream events are independent: after a `malformed` failure the decoder continues with the next event. */
  readonly lenientEvents?: boolean
  readonly framing?: Framing
  /** Creates a stream decoder. Its `end` returns a `truncated` failure event if the answer is incomplete. */
  readonly decodeStream: () => StreamDecoder
  /** How answers with several choices are decoded. Absent: one choice only; requests for more are incompatible. */
  readonly choices?: UpstreamChoices
  /** An error answer (status 400 and up, or an error in a 200 or in a stream), classified in this format's dialect. */
  readonly decodeFailure: (status: number, body: Json | undefined, headers: HeaderLookup) => Failure
}

/** How an upstream format answers with several choices (OpenAI's `n`). */
export type UpstreamChoices = {
  /** The most choices a request may ask for. Absent: no limit is known. */
  readonly most?: number
  /** Several choices are returned in whole answers only: a streaming client's request is sent as a whole one. */
  readonly wholeOnly?: true
  /**
   * A body, or one event of a stream, as one body for each choice in it, by the choice's index. Each holds that choice alone,
   * as the first, beside all other members. Empty: it has no choice (usage, an error), and belongs to all of them.
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
  readonly decodeRequest: (body: JsonObject) => Outcome<ChatRequest>
  readonly encodeAnswer: (answer: ChatAnswer, context: AnswerContext) => JsonObject
  /** Writes a stream in this format from the events alone. */
  readonly encodeStream: (context: AnswerContext) => StreamWriter
  /** Encodes an error body. */
  readonly encodeFailure: (failure: Failure, context: FailureContext) => JsonObject

  /** The format's endpoint for counting the tokens of a request, if it has one. */
  readonly counting?: TokenCounting
  /** Pass-through, if upstreams use the format too. */
  readonly passing?: SameFormat
  /** Writes answers with several choices. Absent: the format has no member that asks for them. */
  readonly encodeChoices?: ClientChoices
}

/** How a client format writes several choices. The count is `settings.choices` of the request. */
export type ClientChoices = {
  /** `answers` by index. What they share (id, model, usage) is that of the first. */
  readonly whole: (answers: readonly ChatAnswer[], context: AnswerContext) => JsonObject
  /** Writes a stream from steps with `choices`. */
  readonly stream: (context: AnswerContext) => StreamWriter
}

/** Pass-through: client and upstream use the same format. */
export type SameFormat = {
  /** What has to change in the body all the same, whatever the provider (the model's name; asking for usage in a stream). Shares every other member with `body`. */
  readonly adaptRequest: (body: JsonObject, target: EncodeTarget) => JsonObject
  /** Paths in `body` of the list entries that `adaptRequest` leaves out, in order. Absent: it leaves out none. */
  readonly omittedEntries?: (body: JsonObject, target: EncodeTarget) => readonly string[]
  /** Forwards the upstream's frames, without parts that the client did not request. */
  readonly passStream: (context: AnswerContext) => StreamWriter
  /** The whole answer that a complete stream's frames tell, as its text; null: they do not tell one, and only the events are left. */
  readonly assembleAnswer: (frames: readonly Frame[]) => string | null
  /** The same for a whole answer. `body`: its text, parsed, where that is at hand. Absent: its text passes as it is. */
  readonly passAnswer?: (source: string, context: AnswerContext, body?: Json) => string
}

/** A wire format in both directions. */
export type Protocol = UpstreamProtocol &
  ClientProtocol & { readonly name: ClientProtocolName & UpstreamProtocolName; readonly passing: SameFormat }

export type TokenCounting = {
  /** Path suffix of the endpoint: `/count_tokens`. */
  readonly suffix: string
  /** As for an answer, save what only an answer needs. */
  readonly decodeRequest: (body: JsonObject) => Outcome<ChatRequest>
  /** The token count; undefined if the body contains none. */
  readonly decodeAnswer: (body: Json) => number | undefined
  readonly encodeAnswer: (tokens: number) => JsonObject
}

/**
 * One step of an answer: the upstream's frame, if there was one, and the events it was decoded to. A step without a
 * frame is the gateway's own (a failure it found), a whole answer, whose text is then in `whole`, or frames in a row.
 */
export type StreamStep = {
  readonly frame?: Frame
  /**
   * Server-sent events as they came, each of which is one of `events`, whole and in UTF-8 without fault. They are the
   * reader's again when the step has been taken: who keeps it copies them.
   */
  readonly bytes?: Uint8Array
  readonly whole?: string
  /** `whole`, parsed. */
  readonly body?: Json
  /** `whole` with its bytes, where they are at hand. */
  readonly source?: EncodedText
  /**
   * What the answer as a whole does. Of an answer with several choices: the content of all of them as it came, and one
   * `finish` after the last choice has finished.
   */
  readonly events: readonly ChatEvent[]
  /** Of an answer with several choices: the blocks and the finish of each that has any in this step. */
  readonly choices?: readonly ChoiceEvents[]
}

/** What one choice of several does in a step; `start`, `usage`, `failure` and `ping` are the whole answer's. */
export type ChoiceEvents = { readonly index: number; readonly events: readonly ChatEvent[] }

/**
 * Steps in, wire text out, each event of the wire whole in one piece. After a `failure` event the in-band error has been
 * written and nothing more comes. `end` gives what a complete answer still lacks (`data: [DONE]`), nothing after a failure.
 */
export type StreamWriter = Stage<StreamStep, string> & {
  /**
   * Whether the frames of these bytes go out as they are, and then they count as written; otherwise each is to be pushed by
   * itself. Absent: frames are not looked at, and events are all that is written from.
   */
  passBytes?(bytes: Uint8Array): boolean
  /** Wire text that keeps a client of this format waiting while nothing else is sent. */
  keepAlive(): string
}

export type EncodeTarget = {
  /** Model name at the upstream. */
  readonly model: string
  /** Output limit of the model in tokens, for formats that demand one; from the catalogue. */
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
}

export type Encoded = {
  readonly body: JsonObject
  readonly losses: readonly Loss[]
  /** Which client member each member of `body` came from, so that a later change by a provider can be named: `{ stop: 'stop_sequences' }`. A member inside another may have its own: `reasoning.effort`. */
  readonly from: { readonly [member: string]: string }
}

/** A request member that the target's format cannot express, by its path in the client's body. `essential`: without it the request has another meaning. */
export type Loss = { readonly path: string; readonly essential: boolean }

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
  /** Called with the path of output that the client's format cannot express: `output.image`. */
  readonly onLoss?: (path: string) => void
  /** Request ID for errors in the stream. */
  readonly requestId?: string
  /** Storage members of the response, for formats whose responses can be retrieved. */
  readonly storage?: StorageInfo
}

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
