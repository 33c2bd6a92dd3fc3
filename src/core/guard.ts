/**
 * The list through which a request and its answer pass: guards, the response cache, the stated cost. The order is that of the
 * list, in both directions.
 */
import type { Client } from './accounts.ts'
import type { ChatEvent, Usage } from './chat.ts'
import type { DataFacts } from './data-policy.ts'
import type { TextOrBytes } from './encoded-text.ts'
import type { Failure } from './failure.ts'
import type { FinderKind } from './finder-kinds.ts'
import type { GuardAction, GuardPhase, RuleVerdict } from './guard-verdict.ts'
import type { HeaderLookup } from './headers.ts'
import type { JsonObject } from './json-value.ts'
import type { AnswerContext } from './protocol.ts'
import type { Secret } from './secret.ts'
import type { Stage } from './stage.ts'
import type { Candidate, Plan } from './target.ts'
import type { Trace } from './trace.ts'

/** A member of the list. It belongs to one call; absent functions cost nothing. */
export type Guard = {
  /** Checks the request before the response cache and the choice of a target. Null: it goes on unchanged. */
  readonly request?: (
    texts: () => readonly RequestText[],
    /** A label for each image, recording and file, which no guard reads. */
    media: () => readonly string[],
  ) => GuardVerdict | null | Promise<GuardVerdict | null>
  /**
   * Checks or changes the answer: a stage for each choice. It is read after the request has passed. Text may be held back until `close`, `finish` or `end`. A `failure`
   * event ends the answer, and the upstream is cancelled. An answer that passes stages is encoded, never passed through.
   */
  readonly events?: (() => Stage<ChatEvent, ChatEvent>) | undefined
  /** Checks the texts of the answer before its stages, and may take its time. It is read after the request has passed. */
  readonly answer?: TextCheck | undefined
  /** Follows the answer as it is written. Null: this one is not followed. */
  readonly written?: (answer: WrittenAnswer) => AnswerFollower | null
}

/** A guard of an operator. `revision` changes with its rules: a cached answer belongs to the revisions that it has passed. */
export type ChosenGuard = Guard & {
  readonly revision: string
  /** It reads the text of answers, so that no other part of an answer may state the text. */
  readonly readsAnswer?: boolean
}

/** Names of the rules of a request and their results: `+strict, -pii` in a request, `pii=mask:2` in its answer. */
export const GUARDS_HEADER = 'x-headgate-guards'

/** A rule of the operator for the texts of requests and answers. */
export type GuardRule = {
  readonly name: string
  readonly on: readonly GuardPhase[]
  readonly kinds: readonly FinderKind[]
  readonly patterns: readonly string[]
  readonly words: readonly string[]
  readonly action: GuardAction
  /** What a refusal advises; null: to remove the text. */
  readonly message: string | null
  /** Null: that of what was found. */
  readonly label: string | null
  /** In answers, masks are also in arguments of tools. */
  readonly tools: boolean
  /** It finds images, audio, videos and files in requests, whatever they contain. */
  readonly media: boolean
  /** Names of teams to whose calls it does not apply. */
  readonly exceptTeams: readonly string[]
  /** Who finds; absent: the rule itself, by its kinds, patterns and words. */
  readonly service?: GuardService
  /** Names of the teams and of the routes to which alone it applies; null: all. */
  readonly onlyTeams: readonly string[] | null
  readonly onlyRoutes: readonly string[] | null
  /** Names of teams whose requests may leave it out; `*`: all. */
  readonly optionalTeams: readonly string[]
}

/** A service that decides about texts, and how it is called. */
export type GuardService = {
  /** Often a credential itself. */
  readonly url: Secret
  /** Changes with the address, the headers and the secret. */
  readonly fingerprint: string
  readonly headers: { readonly [name: string]: Secret }
  /** ms for all questions about one request. */
  readonly timeout: number
  /** What happens to a request that cannot be checked. */
  readonly onError: 'block' | 'allow'
  /** Answers are held back until they are checked, or checked while they are sent; null: by the action of the rule. */
  readonly answers: 'hold' | 'watch' | null
  /** Where and how it keeps texts; null: unknown. */
  readonly facts: DataFacts | null
} & (
  | {
      readonly kind: 'headgate' /** Signs the requests (Standard Webhooks); null: unsigned. */
      readonly secret: Secret | null
    }
  | { readonly kind: 'litellm'; readonly parameters: JsonObject }
  | {
      readonly kind: 'moderation'
      readonly model: string
      readonly thresholds: { readonly [category: string]: number }
    }
  | {
      readonly kind: 'presidio'
      readonly language: string
      readonly entities: readonly string[] | null
      readonly scoreThreshold: number | null
    }
  | { readonly kind: 'bedrock'; readonly guardrail: string; readonly version: string; readonly region: string }
)

/** A text of a request which a model reads. */
export type RequestText = {
  readonly text: string
  /** Of the message; null: outside of messages. */
  readonly role: string | null
  /** `arguments`: a value in the arguments of a tool call. `result`: what a tool returned. `tools`: in a declaration of a tool or a schema. */
  readonly kind: 'text' | 'arguments' | 'result' | 'tools'
}

/** Checks an answer by its texts, in their order: those of its choices, and of their blocks. */
export type TextCheck = {
  /** The answer is held back until the verdict; false: it is checked while it is sent. */
  readonly holds: boolean
  /** `final`: the answer is complete. Null: it passes. Never rejects. */
  readonly read: (texts: readonly RequestText[], final: boolean) => Promise<AnswerVerdict | null>
}

/** Edits are made only in an answer that is held. */
export type AnswerVerdict = { readonly refuse: Failure } | { readonly edits: readonly AnswerEdit[] }

/** A change of the text with this index, from `start` to before `end`, for good. */
export type AnswerEdit = { readonly index: number; readonly start: number; readonly end: number; readonly text: string }

/** What a guard does with a request. */
export type GuardVerdict =
  /** The client receives the failure. */
  | { readonly refuse: Failure }
  /** New texts by the texts that they replace, wherever these occur. */
  | { readonly replace: ReadonlyMap<string, string> }
  /** The guard answers: no target is called. */
  | { readonly answer: () => Promise<void> }

/** An answer that is about to be written. */
export type WrittenAnswer = {
  readonly candidate: Candidate
  /** The context of a stream. Null: the answer is one body. */
  readonly stream: AnswerContext | null
}

/** Follows an answer as it is written. An answer that is no stream is one piece. */
export type AnswerFollower = {
  /** The events of the piece that is written next. Not called for answers without events, such as embeddings. */
  events(events: readonly ChatEvent[]): void
  /** Returns what is written instead. Bytes are valid during the call only. */
  piece(piece: TextOrBytes): TextOrBytes
  /** The answer is complete. */
  complete(answer: CompleteAnswer): void
  /** Releases what is kept. Called once on every path, after `complete`. */
  discard(): void
}

/** `headers`: of the answer itself, such as its content type. */
export type CompleteAnswer = {
  readonly headers: Readonly<Record<string, string>>
  readonly used: { readonly usage: Usage; readonly estimated?: true } | null
  readonly trace: Trace
}

/** Chooses the guards of a call, in order. */
export type ChooseGuards = (call: GuardedCall) => readonly ChosenGuard[]

/** The call for which guards are chosen. */
export type GuardedCall = {
  readonly id: string
  readonly client: Client
  /** The kind of call, as in the log. */
  readonly style: string
  readonly plan: Plan
  readonly headers: HeaderLookup
  /** Records a verdict. */
  readonly note: (verdict: RuleVerdict) => void
}
