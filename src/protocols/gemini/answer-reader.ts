import type { ChatEvent, Output, Usage } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { retirementTime } from '../../core/retirement.ts'
import { malformed, truncated } from '../errors/answer-failures.ts'
import { append } from '../shared/append.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { standardBase64 } from '../shared/media.ts'
import { unixSeconds } from '../shared/numbers.ts'
import { argumentsText, exceedsDepth, MAX_DEPTH } from '../shared/tool-arguments.ts'
import {
  optionalArguments,
  optionalBoolean,
  optionalList,
  optionalObject,
  optionalString,
  type TypeCheck,
} from '../shared/type-checks.ts'
import { laterUsage } from '../shared/usage.ts'
import { decodeFailure } from './errors.ts'
import { blockedFinish, decodeFinish, decodeUsage, failureOf, type GeminiFinish } from './finish-and-usage.ts'
import { citationsOf, groundedCalls, recitationsOf } from './grounding.ts'

const hasCandidateTypes: TypeCheck = optionalList(
  optionalObject({
    content: optionalObject({
      parts: optionalList(
        optionalObject({
          text: optionalString,
          thought: optionalBoolean,
          thoughtSignature: optionalString,
          functionCall: optionalObject({ args: optionalArguments }),
        }),
      ),
    }),
  }),
)

/** Members of which an answer has at least one. */
const ANSWER_MEMBERS = ['candidates', 'usageMetadata', 'promptFeedback', 'modelVersion', 'responseId']

/**
 * Decodes `GenerateContentResponse`s one by one. Each contains what was added since the previous one, so a complete answer
 * is a stream of one.
 */
export class GeminiAnswerReader {
  #started = false
  #answerId = ''
  #open: 'text' | 'reasoning' | undefined
  /** The open text so far; citations refer to positions in it. */
  #text = ''
  /** The signature of the open text, emitted after it. */
  #signature = ''
  #calls = 0
  #usage: Usage | undefined
  #hosted: Usage['toolCalls']
  #grounding: JsonObject = {}
  #recitations: JsonObject = {}
  #hasContent = false
  /** The last finish reason, if the next response may continue the answer. */
  #held: GeminiFinish | undefined
  #finished = false
  /** The answer has failed or its input has ended; further input is ignored. */
  #over = false

  get over(): boolean {
    return this.#over
  }

  get mayBeOver(): boolean {
    return this.#held !== undefined && !this.#over
  }

  push(response: unknown): readonly ChatEvent[] {
    if (this.#over) return []
    return isObject(response) ? this.#read(response) : this.fail(malformed('it is not an object'))
  }

  /** Ends the input; an unfinished answer is a `truncated` failure. */
  end(): readonly ChatEvent[] {
    if (this.#over) return []
    const held = this.#held
    const ended = held && !this.#finished ? this.#finish(held, undefined) : []
    this.#over = true
    return this.#finished ? ended : [{ type: 'failure', failure: truncated() }]
  }

  fail(failure: Failure): ChatEvent[] {
    this.#over = true
    return [{ type: 'failure', failure }]
  }

  #read(response: JsonObject): ChatEvent[] {
    if (response.error !== undefined && response.error !== null)
      return this.fail(decodeFailure(200, response, () => undefined))
    if (!ANSWER_MEMBERS.some((name) => Object.hasOwn(response, name)))
      return this.fail(malformed('it is not a GenerateContentResponse'))
    if (!hasCandidateTypes(response.candidates))
      return this.fail(malformed('members of the candidates have the wrong type'))
    const events = this.#start(response)
    const candidates = list(response.candidates)
    const first = candidates.filter(isObject).find(({ index }) => index === undefined || index === null || index === 0)
    const content = first && !this.#finished ? this.#readCandidate(first) : []
    append(events, content)
    if (this.#over) return events
    this.#hasContent ||= content.length > 0
    const blocked = candidates.length === 0 ? blockedFinish(response.promptFeedback) : undefined
    const finish = first ? decodeFinish(first.finishReason, this.#calls > 0) : blocked
    const calls = groundedCalls(first?.groundingMetadata)
    if (calls) this.#hosted = { ...this.#hosted, ...calls }
    const counted = decodeUsage(response.usageMetadata, this.#hosted)
    if (counted) this.#usage = laterUsage(this.#usage, counted)
    const usage = counted && this.#usage
    // STOP may stand in each response (BerriAI/litellm#2195), or after a step of a hosted tool (0xPlaygrounds/rig#2328): it is the end
    // if no candidate follows.
    const mayContinue = finish?.raw === 'STOP' && (content.length > 0 || !this.#hasContent)
    const due = first || finish ? finish : this.#held
    this.#held = mayContinue ? finish : undefined
    const ended = due && !mayContinue && !this.#finished ? this.#finish(due, first?.finishMessage) : []
    // Usage precedes the end, because a failure is always the last event.
    return [...events, ...(usage ? [{ type: 'usage', usage } as const] : []), ...ended]
  }

  #start(response: JsonObject): ChatEvent[] {
    if (this.#started) return []
    this.#started = true
    const id = text(response.responseId) ?? ''
    this.#answerId = id
    const model = text(response.modelVersion)
    const created = unixSeconds(response.createTime)
    const retires = retirementIn(response.modelStatus)
    return [
      {
        type: 'start',
        ...(id && { id }),
        ...(model && { model }),
        ...(created && { created }),
        ...(retires && { retires }),
      },
    ]
  }

  #readCandidate(candidate: JsonObject): ChatEvent[] {
    const events: ChatEvent[] = []
    for (const part of list(object(candidate.content)?.parts)) {
      if (!isObject(part)) return [...events, ...this.fail(malformed('a part is not an object'))]
      events.push(...this.#addPart(part))
      if (this.#over) return events
    }
    const logprobs = logprobsOf(candidate.logprobsResult)
    if (this.#open === 'text' && logprobs.length > 0) events.push({ type: 'delta', text: '', logprobs })
    const { groundingMetadata, citationMetadata } = candidate
    if (isObject(groundingMetadata) && !exceedsDepth(groundingMetadata, MAX_DEPTH))
      this.#grounding = { ...this.#grounding, ...groundingMetadata }
    if (isObject(citationMetadata) && !exceedsDepth(citationMetadata, MAX_DEPTH))
      this.#recitations = { ...this.#recitations, ...citationMetadata }
    return events
  }

  #finish(finish: GeminiFinish, message: Json | undefined): ChatEvent[] {
    const closed = this.#close()
    const failure = failureOf(finish, message)
    if (failure) return [...closed, ...this.fail(failure)]
    this.#finished = true
    return [...closed, { type: 'finish', finish }]
  }

  // ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #addPart(part: JsonObject): ChatEvent[] {
    const signature = text(part.thoughtSignature) ?? ''
    const content = text(part.text)
    if (isObject(part.functionCall)) return this.#addCall(part.functionCall, signature)
    if (part.thought === true && (content !== undefined || signature)) return this.#addThought(content, signature)
    if (content !== undefined) return this.#addText(content, signature)
    const members = Object.keys(part).filter((name) => part[name] !== undefined && part[name] !== null)
    if (members.length === 0) return []
    if (members.every((name) => name === 'thoughtSignature')) return [...this.#close(), ...signatureBlock(signature)]
    if (exceedsDepth(part, MAX_DEPTH)) return this.fail(malformed('a part is nested too deep'))
    return [
      ...this.#close(),
      { type: 'open', block: { type: 'foreign', protocol: 'gemini', raw: part, ...outputIn(part) } },
      { type: 'close' },
    ]
  }

  #addText(content: string, signature: string): ChatEvent[] {
    if (content === '' && !signature) return []
    if (content === '' && this.#open !== 'text') return [...this.#close(), ...signatureBlock(signature)]
    const events = this.#begin('text')
    this.#text += content
    if (signature) this.#signature = signature
    return content === '' ? events : [...events, { type: 'delta', text: content }]
  }

  #addThought(content: string | undefined, signature: string): ChatEvent[] {
    const events = this.#begin('reasoning')
    if (content) events.push({ type: 'delta', text: content })
    return signature ? [...events, signatureEvent(signature), ...this.#close()] : events
  }

  #addCall(call: JsonObject, signature: string): ChatEvent[] {
    const name = text(call.name)
    // Gemini streams partial arguments only on request.
    if (!name || call.willContinue === true || isList(call.partialArgs))
      return this.fail(malformed('an incomplete tool call'))
    const given = argumentsText(call.args)
    if (given === undefined) return this.fail(malformed('the arguments of a tool call are nested too deep'))
    const id = text(call.id) || derivedCallId(this.#answerId, this.#calls, name, given)
    this.#calls++
    return [
      ...this.#close(),
      ...(signature ? signatureBlock(signature, id) : []),
      { type: 'open', block: { type: 'tool-call', id, name } },
      { type: 'delta', text: given },
      { type: 'close' },
    ]
  }

  #begin(type: 'text' | 'reasoning'): ChatEvent[] {
    if (this.#open === type) return []
    const events = this.#close()
    this.#open = type
    // Gemini returns summaries of its reasoning.
    return [...events, { type: 'open', block: type === 'text' ? { type } : { type, summary: true } }]
  }

  #close(): ChatEvent[] {
    if (!this.#open) return []
    const cited = this.#open === 'text' ? this.#cite() : []
    const signed = this.#signature ? signatureBlock(this.#signature) : []
    this.#open = undefined
    this.#text = ''
    this.#signature = ''
    return [...cited, { type: 'close' }, ...signed]
  }

  #cite(): ChatEvent[] {
    const citations = [...citationsOf(this.#grounding, this.#text), ...recitationsOf(this.#recitations)]
    this.#grounding = {}
    this.#recitations = {}
    return citations.map((citation) => ({ type: 'citation', citation }))
  }
}

/**
 * When the model ends, in ms since 1970: `{"modelStage": "DEPRECATED", "retirementTime": "2026-12-11T00:00:00Z"}` (`ModelStatus` of
 * `GenerateContentResponse` in @google/genai 3.1.0, Gemini API only).
 */
const retirementIn = (status: Json | undefined): number | null => {
  const written = text(object(status)?.retirementTime)
  return written === undefined ? null : retirementTime(written)
}

/** What the user sees of a part that is neither text nor a call. */
const outputIn = (part: JsonObject): { output?: Output } => {
  if (part.executableCode !== undefined || part.codeExecutionResult !== undefined) return { output: { kind: 'code' } }
  const inline = object(part.inlineData)
  const media = inline ?? object(part.fileData)
  if (!media) return {}
  const mediaType = text(media.mimeType) ?? ''
  const kind = /^(image|audio|video)\//.exec(mediaType)?.[1] ?? 'file'
  const data = text(inline?.data)
  if (kind !== 'image' || data === undefined) return { output: { kind } }
  return { output: { kind, images: [{ kind: 'data', mediaType, data: standardBase64(data) }] } }
}

const signatureEvent = (value: string, callId?: string): ChatEvent => ({
  type: 'signature',
  signature: { origin: 'gemini', value, ...(callId !== undefined && { id: callId }) },
})

/** An empty reasoning block with the signature of a text or a call. Every client format can carry it. */
const signatureBlock = (value: string, callId?: string): ChatEvent[] => [
  { type: 'open', block: { type: 'reasoning' } },
  signatureEvent(value, callId),
  { type: 'close' },
]

/** The log probabilities of the tokens of a text, as in chat completions. */
const logprobsOf = (rawResult: Json | undefined): JsonObject[] => {
  const result = object(rawResult)
  const alternatives = list(result?.topCandidates)
  return list(result?.chosenCandidates).flatMap((chosen, index) => {
    const token = tokenOf(chosen)
    const top_logprobs = list(object(alternatives[index])?.candidates).flatMap((candidate): JsonObject[] => {
      const alternative = tokenOf(candidate)
      return alternative ? [alternative] : []
    })
    return token ? [{ ...token, top_logprobs }] : []
  })
}

const tokenOf = (raw: Json): JsonObject | undefined => {
  const candidate = object(raw)
  const token = text(candidate?.token)
  const logprob = number(candidate?.logProbability)
  if (token === undefined || logprob === undefined) return undefined
  return { token, logprob, bytes: [...new TextEncoder().encode(token)] }
}
