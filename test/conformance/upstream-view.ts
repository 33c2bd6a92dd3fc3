/**
 * Reads the content of an upstream's answer without the gateway's codecs, for every upstream format: from a whole body,
 * and from the events of a stream. `answer-oracle.ts` reads the formats that clients use too.
 */
import assert from 'node:assert/strict'
import type { UpstreamProtocolName } from '../../src/core/chat.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../src/core/json.ts'
import {
  answerReaders,
  joinReasoning,
  type ObservedAnswer,
  parseArguments,
  readGemini,
  type TokenCounts,
} from './answer-oracle.ts'

type UpstreamReader = {
  readonly readWhole: (body: Json) => ObservedAnswer
  /** Takes the payload of each message of the stream. */
  readonly readStream: (events: readonly JsonObject[]) => ObservedAnswer
  /** Whether this message completes the answer: a stream cut before it is truncated. */
  readonly isFinal: (event: JsonObject) => boolean
  /** The answer's id and model in a body or in a message of a stream. */
  readonly identity: (payload: JsonObject) => { readonly id?: Json | undefined; readonly model?: Json | undefined }
}

const objects = (value: Json | undefined): JsonObject[] => list(value).filter(isObject)
const count = (value: Json | undefined): number => number(value) ?? 0
/** The member of each object, where it is an object. */
const membersNamed = (things: readonly JsonObject[], member: string): JsonObject[] =>
  things.map((thing) => thing[member]).filter(isObject)
/** Non-empty URLs: a cited document of the request has none, and no client format can express it otherwise. */
const nonEmpty = (urls: readonly string[]): string[] => urls.filter((url) => url !== '')

/** Defaults for members that a format lacks. */
const EMPTY_ANSWER: ObservedAnswer = {
  text: '',
  refusal: '',
  reasoning: '',
  calls: [],
  citedUrls: [],
  finishReason: '',
  usage: null,
  foreign: [],
}

const clientFormatReader = (
  name: 'openai-chat' | 'openai-responses' | 'anthropic-messages',
  isFinal: UpstreamReader['isFinal'],
): UpstreamReader => {
  const { read, assemble } = answerReaders[name]
  // Streams of responses and messages have the answer's head in their first event.
  const identity = (payload: JsonObject) => object(payload.response) ?? object(payload.message) ?? payload
  return {
    readWhole: (body) => read(object(body) ?? {}),
    readStream: (events) => read(assemble(events)),
    isFinal,
    identity,
  }
}

const hasReason = (event: JsonObject): boolean => objects(event.choices).some((choice) => choice.finish_reason)

// ── Bedrock Converse ─────────────────────────────────────────────────────────────────────────────────────────────

const citationUrl = (citation: Json): string =>
  text(object(object(object(citation)?.location)?.web)?.url) ?? text(object(citation)?.source) ?? ''

const converseUsage = (usage: JsonObject | undefined): TokenCounts | null => {
  if (!usage) return null
  const cacheRead = count(usage.cacheReadInputTokens)
  const cacheWrite = count(usage.cacheWriteInputTokens)
  const input = count(usage.inputTokens) + cacheRead + cacheWrite
  const output = count(usage.outputTokens)
  // Nova's InvokeModel streams have no total.
  assert.equal(input + output, count(usage.totalTokens ?? input + output))
  return { input, output, cacheRead, cacheWrite, reasoning: 0 }
}

const readConverse = (body: JsonObject): ObservedAnswer => {
  const blocks = objects(object(object(body.output)?.message)?.content)
  const uses = membersNamed(blocks, 'toolUse')
  const cited = membersNamed(blocks, 'citationsContent')
  return {
    ...EMPTY_ANSWER,
    text: blocks
      .map((block) => {
        const cited = objects(object(block.citationsContent)?.content).map((part) => text(part.text) ?? '')
        return (text(block.text) ?? '') + cited.join('')
      })
      .join(''),
    reasoning: joinReasoning(
      blocks.map(({ reasoningContent }) => text(object(object(reasoningContent)?.reasoningText)?.text) ?? ''),
    ),
    calls: uses
      .filter(({ type }) => type !== 'server_tool_use')
      .map(({ toolUseId, name, input }) => ({
        id: text(toolUseId) ?? '',
        name: text(name) ?? '',
        input: input ?? {},
      })),
    citedUrls: nonEmpty(cited.flatMap(({ citations }) => list(citations).map(citationUrl))),
    finishReason: text(body.stopReason) ?? '',
    usage: converseUsage(object(body.usage)),
    foreign: blocks.filter(({ toolUse, toolResult }) => toolResult || object(toolUse)?.type === 'server_tool_use'),
  }
}

/** Assembles the stream and reads the answer. */
const readConverseStream = (events: readonly JsonObject[]): ObservedAnswer => {
  const blocks: { [member: string]: Json }[] = []
  const inputs = new Map<number, string>()
  const cited: string[] = []
  let reason: Json = null
  let usage: JsonObject | undefined
  for (const event of events) {
    const start = object(event.contentBlockStart)
    const piece = object(event.contentBlockDelta)
    const delta = object(piece?.delta)
    const at = count(start?.contentBlockIndex ?? piece?.contentBlockIndex)
    const begun = object(start?.start)
    if (begun) blocks[at] = { ...begun } as { [member: string]: Json }
    if (delta) {
      const block = blocks[at] ?? {}
      blocks[at] = block
      const words = text(delta.text)
      const reasoning = text(object(delta.reasoningContent)?.text)
      const input = text(object(delta.toolUse)?.input)
      if (words !== undefined) block.text = (text(block.text) ?? '') + words
      if (reasoning !== undefined) {
        const before = text(object(object(block.reasoningContent)?.reasoningText)?.text) ?? ''
        block.reasoningContent = { reasoningText: { text: before + reasoning } }
      }
      if (input !== undefined) inputs.set(at, (inputs.get(at) ?? '') + input)
      if (delta.citation) cited.push(citationUrl(delta.citation))
    }
    reason = object(event.messageStop)?.stopReason ?? reason
    usage = object(object(event.metadata)?.usage) ?? usage
  }
  for (const [at, block] of blocks.entries())
    if (isObject(block?.toolUse)) block.toolUse = { ...block.toolUse, input: parseArguments(inputs.get(at)) }
  const content = blocks.filter((block) => block !== undefined)
  const answer = readConverse({ output: { message: { content } }, stopReason: reason, ...(usage && { usage }) })
  return { ...answer, citedUrls: nonEmpty(cited) }
}

// ── Cohere ───────────────────────────────────────────────────────────────────────────────────────────────────────

const sourceUrls = (citation: Json): string[] =>
  // Citations of the plan and of the reasoning do not cite the text.
  ['PLAN', 'THINKING_CONTENT'].includes(text(object(citation)?.type) ?? '')
    ? []
    : objects(object(citation)?.sources).map((source) => {
        const given = object(source.document) ?? object(source.tool_output)
        return text(given?.url) ?? text(given?.uri) ?? ''
      })

const cohereUsage = (usage: JsonObject | undefined): TokenCounts | null => {
  const tokens = object(usage?.tokens)
  if (!tokens) return null
  return {
    input: count(tokens.input_tokens) + count(tokens.image_tokens),
    output: count(tokens.output_tokens),
    cacheRead: count(usage?.cached_tokens),
    cacheWrite: 0,
    reasoning: count(tokens.reasoning_tokens),
  }
}

const cohereArguments = (written: Json | undefined): Json => parseArguments(written === 'null' ? '' : written)

const readCohere = (body: JsonObject): ObservedAnswer => {
  const message = object(body.message)
  const content = objects(message?.content)
  return {
    ...EMPTY_ANSWER,
    text: content.map((part) => text(part.text) ?? '').join(''),
    reasoning: joinReasoning([text(message?.tool_plan) ?? '', ...content.map((part) => text(part.thinking) ?? '')]),
    calls: objects(message?.tool_calls).map((call) => {
      const called = object(call.function)
      return { id: text(call.id) ?? '', name: text(called?.name) ?? '', input: cohereArguments(called?.arguments) }
    }),
    citedUrls: nonEmpty(list(message?.citations).flatMap(sourceUrls)),
    finishReason: text(body.finish_reason) ?? '',
    usage: cohereUsage(object(body.usage)),
  }
}

/** Assembles the stream and reads the answer. */
const readCohereStream = (events: readonly JsonObject[]): ObservedAnswer => {
  const whole = { text: '', thinking: '', plan: '' }
  const calls: { id: Json; name: Json; words: string }[] = []
  const citations: Json[] = []
  let end: JsonObject = {}
  for (const { type, delta } of events) {
    const message = object(object(delta)?.message)
    const content = object(message?.content)
    const call = object(message?.tool_calls)
    const called = object(call?.function)
    whole.text += text(content?.text) ?? ''
    whole.thinking += text(content?.thinking) ?? ''
    whole.plan += text(message?.tool_plan) ?? ''
    if (type === 'tool-call-start') calls.push({ id: call?.id ?? null, name: called?.name ?? null, words: '' })
    const last = calls.at(-1)
    if (last) last.words += text(called?.arguments) ?? ''
    if (type === 'citation-start') citations.push(message?.citations ?? null)
    if (type === 'message-end') end = object(delta) ?? {}
  }
  const { finish_reason = null, usage = null } = end
  return readCohere({
    message: {
      tool_plan: whole.plan,
      content: [{ thinking: whole.thinking }, { text: whole.text }],
      tool_calls: calls.map(({ id, name, words }) => ({ id, function: { name, arguments: words } })),
      citations,
    },
    finish_reason,
    usage,
  })
}

// ── Ollama ───────────────────────────────────────────────────────────────────────────────────────────────────────

const readOllama = (lines: readonly JsonObject[]): ObservedAnswer => {
  const messages = lines.map((line) => object(line.message) ?? {})
  const last = lines.findLast(({ done }) => done === true)
  return {
    ...EMPTY_ANSWER,
    text: messages.map(({ content }) => text(content) ?? '').join(''),
    reasoning: joinReasoning(messages.map(({ thinking }) => text(thinking) ?? '')),
    calls: messages.flatMap(({ tool_calls }) =>
      objects(tool_calls).map((call) => {
        const called = object(call.function)
        return { id: text(call.id) ?? '', name: text(called?.name) ?? '', input: called?.arguments ?? {} }
      }),
    ),
    finishReason: text(last?.done_reason) ?? '',
    usage: {
      input: count(last?.prompt_eval_count),
      output: count(last?.eval_count),
      cacheRead: count(last?.prompt_eval_cached_count),
      cacheWrite: 0,
      reasoning: 0,
    },
  }
}

// ── Every format ───────────────────────────────────────────────────────────────────────────────────────────────────

const chatReader = clientFormatReader('openai-chat', hasReason)

export const upstreamReaders: { readonly [name in UpstreamProtocolName]: UpstreamReader } = {
  'openai-chat': chatReader,
  'openai-responses': clientFormatReader('openai-responses', ({ type }) =>
    /^response\.(completed|incomplete|failed)$/.test(text(type) ?? ''),
  ),
  'anthropic-messages': clientFormatReader(
    'anthropic-messages',
    ({ delta }) => text(object(delta)?.stop_reason) !== undefined,
  ),
  // Mistral's answers have the members of chat completions, including lists instead of texts.
  mistral: chatReader,
  gemini: {
    // A stream requested without `alt=sse` is one list.
    readWhole: (body) => readGemini(objects(Array.isArray(body) ? body : [body])),
    readStream: readGemini,
    isFinal: (event) => objects(event.candidates).some(({ finishReason }) => finishReason !== undefined),
    identity: ({ responseId, modelVersion }) => ({ id: responseId, model: modelVersion }),
  },
  'bedrock-converse': {
    readWhole: (body) => readConverse(object(body) ?? {}),
    readStream: readConverseStream,
    isFinal: (event) => event.messageStop !== undefined,
    identity: () => ({}),
  },
  cohere: {
    readWhole: (body) => readCohere(object(body) ?? {}),
    readStream: readCohereStream,
    isFinal: ({ type }) => type === 'message-end',
    identity: ({ id }) => ({ id }),
  },
  ollama: {
    readWhole: (body) => readOllama(objects([body])),
    readStream: readOllama,
    isFinal: ({ done }) => done === true,
    identity: ({ model }) => ({ model }),
  },
}
