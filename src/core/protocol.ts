import type { Accepts } from './accepts.ts'
import type { ChatAnswer, ChatEvent, ChatRequest, ClientProtocolName, UpstreamProtocolName } from './chat.ts'
import type { EncodedText } from './encoded-text.ts'
import type { Failure, Outcome } from './failure.ts'
import type { HeaderLookup } from './headers.ts'
import type { Json, JsonObject } from './json.ts'
import type { Stage } from './stage.ts'

/**
 * One message of a stream: a server-sent event, a line, a binary message. `event`: its name, where it has one. `raw` is its text as read, with the blank line that ends it, for passing a server-sent event on unchanged.
 * `oversized`: the message was longer than the reader allows; it is lost and nothing follows, which is a `too_large` failure.
 */
export type Frame = {
  readonly event?: string
  readonly data: string
  readonly raw?: string
  readonly oversized?: boolean
}

/** How bytes of a stream become frames. Absent in a protocol: server-sent events. */
export type Framing = {
  /** What a stream is asked for with, and how its head announces it: `application/x-ndjson`. */
  readonly mediaType: string
  /** `most`: bytes of the longest message; a longer one is an `oversized` frame. A message that is damaged (its checksum is wrong) is one whose `data` no codec can read. */
  readonly frames: (most: number) => FrameReader
}

/** `between`: the last frame was whole, and nothing of the next has come. Absent: nobody looks at bytes but this reader. */
export type FrameReader = Stage<Uint8Array, Frame> & { readonly atBoundary?: boolean }

/**
 * Reads frames as events. `again`: of bytes behind a whole frame, from `from` on, all frames in a row that differ from the
 * one read last in their text alone; undefined: the next has to be read. `letters`: one for each byte (Latin-1).
 */
export type StreamDecoder = Stage<Frame, ChatEvent> & {
  /**
   * The format's terminal event has been read (`[DONE]`, `message_stop`, `response.completed`): nothing that follows
   * belongs to the answer. Absent: the format has none, or only the end of the body is one.
   */
  readonly done?: boolean
  matchRepeated?(bytes: Uint8Array, latin1: string, from: number): RepeatMatch | undefined
}

/** What such frames tell, and where in the bytes the last of them ends. */
export type RepeatMatch = { readonly events: readonly ChatEvent[]; readonly end: number }

/**
 * One wire format as providers speak it: requests out, answers in. Pure: bytes and time stay outside. A codec never
 * throws on input: what it cannot read is a `malformed` failure, what it cannot carry is a `Loss`.
 */
export type UpstreamProtocol = {
  readonly name: UpstreamProtocolName
  /** The name in `<PROVIDER>_STYLES` and the style in logs: `chat`, `responses`, `messages`, `gemini`. */
  readonly style: string
  /** Path below a provider's base URL: `/chat/completions`. `{model}` stands for the model, where the path names it. */
  readonly path: string
  /** The path for a stream, where it is another one. */
  readonly streamPath?: string

  /** Headers without which an upstream of this format, whoever it is, does not answer. */
  readonly headers?: { readonly [name: string]: string }

  readonly encodeRequest: (request: ChatRequest, target: EncodeTarget) => Encoded

  /**
   * For an answer to a request that `encodeRequest` wrote: undoes in its events what that had to do to the tools (names
   * shortened, free-form input wrapped), behind `decodeAnswer` and `decodeStream`. Undefined, or absent: nothing was done.
   */
  readonly restore?: (request: ChatRequest) => Stage<ChatEvent, ChatEvent> | undefined

  /** A whole answer, as the events it would have been. A body that is an error gives a `failure` event. */
  readonly decodeAnswer: (body: Json) => readonly ChatEvent[]
  /** Its events stand for themselves: one that cannot be read is a `malformed` failure, and those behind it are read all the same. */
  readonly lenientEvents?: boolean
  readonly framing?: Framing
  /** Reads a stream. Its `end` gives `truncated` as a failure event if the answer had not finished. */
  readonly decodeStream: () => StreamDecoder
  /** How it answers with several choices. Absent: with one, and a request for more is unfit. */
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

/** One wire format as clients speak it: requests in, answers out. */
export type ClientProtocol = {
  readonly name: ClientProtocolName
  /** The kind of call, as logs call it: `chat`. */
  readonly style: string
  /** Path below the client's base URL: `/chat/completions`. */
  readonly path: string
  readonly decodeRequest: (body: JsonObject) => Outcome<ChatRequest>
  readonly encodeAnswer: (answer: ChatAnswer, context: AnswerContext) => JsonObject
  /** Writes a stream in this format from the events alone. */
  readonly encodeStream: (context: AnswerContext) => StreamWriter
  /** The error body a client of this format is given. */
  readonly encodeFailure: (failure: Failure, context: FailureContext) => JsonObject

  /** The call that counts a question's tokens instead of answering it, where the format has one. */
  readonly counting?: TokenCounting
  /** Where upstreams speak the format as well: how it passes. Absent: nobody does. */
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

/** The same format on both sides: bytes pass. */
export type SameFormat = {
  /** What has to change in the body all the same, whatever the provider (the model's name; asking for usage in a stream). Shares every other member with `body`. */
  readonly adaptRequest: (body: JsonObject, target: EncodeTarget) => JsonObject
  /** Paths in `body` of the list entries that `adaptRequest` leaves out, in order. Absent: it leaves out none. */
  readonly omittedEntries?: (body: JsonObject, target: EncodeTarget) => readonly string[]
  /** Passes the upstream's frames on, without what the client did not ask for. */
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
  /** Its path, behind that of the call it counts for: `/count_tokens`. */
  readonly suffix: string
  /** As for an answer, save what only an answer needs. */
  readonly decodeRequest: (body: JsonObject) => Outcome<ChatRequest>
  /** The count; undefined for a body that is none. */
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
  /** The upstream's name for the model. */
  readonly model: string
  /** Output limit of the model in tokens, for formats that demand one; from the catalogue. */
  readonly outputLimit?: number | undefined
  /** The catalogue says that it reasons, so it takes an effort. */
  readonly reasons?: boolean | undefined
  /** It reads the reasoning of earlier turns (`reasoning_content`), and some of its models insist on it. */
  readonly acceptsReasoning?: boolean | undefined
  /** What the vendor takes in bodies of this format, where that is known. */
  readonly accepts?: Accepts | undefined
  /** It takes free-form tools in chat completions; others are sent functions with one text. */
  readonly supportsCustomTools?: boolean | undefined
  /** It returns the model's reasoning sealed if the request includes that, and the client's style has a place for it. */
  readonly encryptsReasoning?: boolean | undefined
}

export type Encoded = {
  readonly body: JsonObject
  readonly losses: readonly Loss[]
  /** Which client member each member of `body` came from, so that a later change by a provider can be named: `{ stop: 'stop_sequences' }`. A member inside another may have its own: `reasoning.effort`. */
  readonly from: { readonly [member: string]: string }
}

/** What could not be carried, by the client's own path. `unfit`: the request would mean something else without it. */
export type Loss = { readonly path: string; readonly essential: boolean }

/** What an answer needs to know of the question. */
export type AnswerContext = {
  readonly request: ChatRequest
  /** The client's body as it was, for formats whose answers repeat parts of the question. */
  readonly body: JsonObject
  /** Makes a name for something of ours: `id('resp')` is `resp_` and letters. Unique in the process. */
  readonly id: (prefix: string) => string
  /** s since 1970, for answers that do not bring their own. */
  readonly created: number
  /** What really answers, if the upstream does not say. */
  readonly model: string
  /** Receives the path of output that the client's format has no place for: `output.image`. */
  readonly onLoss?: (path: string) => void
  /** The id our errors carry: a failure in the middle of a stream is written by the stream's writer. */
  readonly requestId?: string
  /** For a format whose answers can be asked for again: how this one is known here. */
  readonly storage?: StorageInfo
}

/** What an answer says of its own keeping, whoever gave it. */
export type StorageInfo = {
  readonly id: string
  /** The answer it continues. */
  readonly previous: string | null
  /** It can be asked for again. */
  readonly store: boolean
  readonly background: boolean
}

export type FailureContext = {
  readonly requestId: string
  /** Content has already been sent, so this is told in the stream and its code is `stream_interrupted` (a shutdown keeps its own). */
  readonly interrupted?: boolean
  readonly attempts?: readonly AttemptSummary[]
}

/** A line of the error's `attempts`. */
export type AttemptSummary = {
  readonly provider: string
  readonly model: string
  readonly key: string
  readonly status: number | null
  readonly kind: string
  readonly ms: number
}
