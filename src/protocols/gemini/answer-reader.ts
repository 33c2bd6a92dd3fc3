/**
 * Reads `GenerateContentResponse`s one after the other. A stream is several of them, a whole answer one: each holds what
 * has been added, so one reader serves both.
 */

import type { ChatEvent, Output } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { malformed } from '../errors/malformed.ts'
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
import { decodeFailure } from './errors.ts'
import { blockOf, decodeUsage, type Ending, endingOf, failureOf } from './finish-and-usage.ts'
import { citationsOf, recitationsOf } from './grounding.ts'
import { logprobsOf } from './logprobs.ts'

export type AnswerReader = {
  push(response: unknown): readonly ChatEvent[]
  /** Input is over; what is missing is told. */
  end(): readonly ChatEvent[]
}

const PARTS: TypeCheck = optionalObject({
  parts: optionalList(
    optionalObject({
      text: optionalString,
      thought: optionalBoolean,
      thoughtSignature: optionalString,
      functionCall: optionalObject({ args: optionalArguments }),
    }),
  ),
})
const CANDIDATES: TypeCheck = optionalList(optionalObject({ content: PARTS }))

export const answerReader = (): AnswerReader => {
  let started = false
  let id = ''
  let open: 'text' | 'reasoning' | undefined
  /** The open text so far, for the places of citations, and its signature, which stands behind it. */
  let said = ''
  let signature = ''
  let calls = 0
  let grounding: JsonObject = {}
  let recitations: JsonObject = {}
  let finished = false
  /** After a failure nothing more is heard. */
  let deaf = false

  const failed = (failure: Failure): ChatEvent[] => {
    deaf = true
    return [{ type: 'failure', failure }]
  }

  const start = (response: JsonObject): ChatEvent[] => {
    if (started) return []
    started = true
    id = text(response.responseId) ?? ''
    const model = text(response.modelVersion)
    const created = unixSeconds(response.createTime)
    return [{ type: 'start', ...(id && { id }), ...(model && { model }), ...(created && { created }) }]
  }

  const begin = (block: 'text' | 'reasoning'): ChatEvent[] => {
    if (open === block) return []
    const events = close()
    open = block
    // What Gemini shows of its thoughts is a summary of them.
    return [...events, { type: 'open', block: block === 'text' ? { type: 'text' } : { type: block, summary: true } }]
  }

  const close = (): ChatEvent[] => {
    if (!open) return []
    const cited = open === 'text' ? cite() : []
    const signed = signature
    open = undefined
    said = ''
    signature = ''
    return [...cited, { type: 'close' }, ...(signed ? sign(signed) : [])]
  }

  const cite = (): ChatEvent[] => {
    const citations = [...citationsOf(grounding, said), ...recitationsOf(recitations)]
    grounding = {}
    recitations = {}
    return citations.map((citation) => ({ type: 'citation', citation }))
  }

  const add = (part: JsonObject): ChatEvent[] => {
    const signed = text(part.thoughtSignature) ?? ''
    const words = text(part.text)
    if (isObject(part.functionCall)) return call(part.functionCall, signed)
    if (part.thought === true && (words !== undefined || signed)) {
      const events = [...begin('reasoning'), ...(words ? [{ type: 'delta', text: words } as const] : [])]
      return signed ? [...events, proof(signed), ...close()] : events
    }
    if (words !== undefined) {
      if (words === '' && !signed) return []
      if (words === '' && open !== 'text') return [...close(), ...sign(signed)]
      const events = begin('text')
      said += words
      if (signed) signature = signed
      return words === '' ? events : [...events, { type: 'delta', text: words }]
    }
    const known = Object.keys(part).filter((name) => part[name] !== undefined && part[name] !== null)
    if (known.length === 0) return []
    if (known.every((name) => name === 'thoughtSignature')) return [...close(), ...sign(signed)]
    if (exceedsDepth(part, MAX_DEPTH)) return failed(malformed('a part nested too deep'))
    return [
      ...close(),
      { type: 'open', block: { type: 'foreign', protocol: 'gemini', raw: part, ...outputIn(part) } },
      { type: 'close' },
    ]
  }

  const call = (given: JsonObject, signed: string): ChatEvent[] => {
    const name = text(given.name)
    // Arguments by pieces come only to who asks for them.
    if (!name || given.willContinue === true || isList(given.partialArgs))
      return failed(malformed('a call that is not whole'))
    const written = argumentsText(given.args)
    if (written === undefined) return failed(malformed('a call with too deep arguments'))
    const callId = text(given.id) || derivedCallId(id, calls, name, written)
    calls++
    return [
      ...close(),
      ...(signed ? sign(signed, callId) : []),
      { type: 'open', block: { type: 'tool-call', id: callId, name } },
      { type: 'delta', text: written },
      { type: 'close' },
    ]
  }

  const finish = (ending: Ending, message: Json | undefined): ChatEvent[] => {
    const closed = close()
    const failure = failureOf(ending, message)
    if (failure) return [...closed, ...failed(failure)]
    finished = true
    return [...closed, { type: 'finish', finish: ending }]
  }

  const candidate = (found: JsonObject): ChatEvent[] => {
    const events: ChatEvent[] = []
    for (const part of list(object(found.content)?.parts)) {
      if (!isObject(part)) return [...events, ...failed(malformed('a part that is no object'))]
      events.push(...add(part))
      if (deaf) return events
    }
    const logprobs = logprobsOf(found.logprobsResult)
    if (open === 'text' && logprobs.length > 0) events.push({ type: 'delta', text: '', logprobs })
    if (isObject(found.groundingMetadata) && !exceedsDepth(found.groundingMetadata, MAX_DEPTH))
      grounding = { ...grounding, ...found.groundingMetadata }
    if (isObject(found.citationMetadata) && !exceedsDepth(found.citationMetadata, MAX_DEPTH))
      recitations = { ...recitations, ...found.citationMetadata }
    return events
  }

  const read = (response: JsonObject): ChatEvent[] => {
    if (response.error !== undefined && response.error !== null)
      return failed(decodeFailure(200, response, () => undefined))
    const known = ['candidates', 'usageMetadata', 'promptFeedback', 'modelVersion', 'responseId']
    if (!known.some((name) => Object.hasOwn(response, name))) return failed(malformed('it is no answer'))
    if (!CANDIDATES(response.candidates)) return failed(malformed('its candidates are not of their types'))
    const events = start(response)
    // One answer was asked for; of several the first is told.
    const found = list(response.candidates)
      .filter(isObject)
      .find(({ index }) => index === undefined || index === null || index === 0)
    if (found && !finished) events.push(...candidate(found))
    if (deaf) return events
    const ending = found
      ? endingOf(found.finishReason, calls > 0)
      : list(response.candidates).length === 0
        ? blockOf(response.promptFeedback)
        : undefined
    const usage = decodeUsage(response.usageMetadata)
    const ended = ending && !finished ? finish(ending, found?.finishMessage) : []
    // In front of a failure, behind which nothing may come.
    return [...events, ...(usage ? [{ type: 'usage', usage } as const] : []), ...ended]
  }

  return {
    push(response) {
      if (deaf) return []
      return isObject(response) ? read(response) : failed(malformed('it is no object'))
    },
    end() {
      if (deaf) return []
      deaf = true
      if (finished) return []
      return [{ type: 'failure', failure: fail('truncated', "The provider's answer broke off before its end.") }]
    },
  }
}

/** What a part that is neither words nor a call shows the user. */
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

const proof = (value: string, callId?: string): ChatEvent => ({
  type: 'signature',
  signature: { origin: 'gemini', value, ...(callId !== undefined && { id: callId }) },
})

/** A signature of something else than a thought: an empty thought of its own, which every format can carry. */
const sign = (value: string, callId?: string): ChatEvent[] => [
  { type: 'open', block: { type: 'reasoning' } },
  proof(value, callId),
  { type: 'close' },
]
