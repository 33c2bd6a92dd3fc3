/**
 * What an upstream's answer says, read from the wire without any codec, for every format upstreams speak: whole, and
 * from the events of a stream. Formats that clients speak too are read by `said.ts`.
 */
import assert from 'node:assert/strict'
import type { UpstreamProtocolName } from '../../src/core/chat.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../src/core/json.ts'
import { type Counts, contentOf, plain, reading, type Said } from './answer-oracle.ts'

type Hearing = {
  readonly whole: (body: Json) => Said
  /** From what each message of the stream holds. */
  readonly streamed: (events: readonly JsonObject[]) => Said
  /** In which message an answer says that it is done: cut before it, it is not. */
  readonly end: (event: JsonObject) => boolean
  /** Where a body, or a message of a stream, says which answer it is and of which model. */
  readonly names: (told: JsonObject) => { readonly id?: Json | undefined; readonly model?: Json | undefined }
}

const objects = (value: Json | undefined): JsonObject[] => list(value).filter(isObject)
const count = (value: Json | undefined): number => number(value) ?? 0
/** Those that are objects, of a member of each. */
const each = (things: readonly JsonObject[], member: string): JsonObject[] =>
  things.map((thing) => thing[member]).filter(isObject)
/** What has an address: a document of the question has none, and no client's style has another place for it. */
const addresses = (urls: readonly string[]): string[] => urls.filter((url) => url !== '')

/** Formats without a word for a thing say it with this. */
const NOTHING: Said = {
  text: '',
  refusal: '',
  reasoning: '',
  calls: [],
  cited: [],
  reason: '',
  usage: null,
  foreign: [],
}

const shared = (name: 'openai-chat' | 'openai-responses' | 'anthropic-messages', end: Hearing['end']): Hearing => {
  const { said, assemble } = reading[name]
  // The others' streams have the answer in their first event.
  const names = (told: JsonObject) => object(told.response) ?? object(told.message) ?? told
  return { whole: (body) => said(object(body) ?? {}), streamed: (events) => said(assemble(events)), end, names }
}

const hasReason = (event: JsonObject): boolean => objects(event.choices).some((choice) => choice.finish_reason)

// ── Gemini ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Numbers for words, where a client asked for them. */
const REASONS = ['', 'STOP', 'MAX_TOKENS', 'SAFETY']

const gemini = (responses: readonly JsonObject[]): Said => {
  const candidates = responses.map((response) => object(list(response.candidates)[0]) ?? {})
  const parts = candidates.flatMap((candidate) => objects(object(candidate.content)?.parts))
  const words = (thought: boolean) =>
    parts.filter((part) => (part.thought === true) === thought).map((part) => text(part.text) ?? '')
  const calls = each(parts, 'functionCall')
  const reason = candidates.findLast(({ finishReason }) => finishReason !== undefined)?.finishReason
  const usage = responses.findLast(({ usageMetadata }) => isObject(usageMetadata))?.usageMetadata
  return {
    ...NOTHING,
    text: words(false).join(''),
    reasoning: plain(words(true)),
    calls: calls.map(({ id, name, args }) => ({ id: text(id) ?? '', name: text(name) ?? '', input: args ?? {} })),
    cited: addresses(candidates.flatMap(groundsOf)),
    reason: typeof reason === 'number' ? (REASONS[reason] ?? '') : (text(reason) ?? ''),
    usage: isObject(usage) ? geminiCounts(usage) : null,
    foreign: parts.filter((part) => part.text === undefined && !part.functionCall),
  }
}

/** Addresses by what they support; all of them where nothing says which words rest on which. And what was recited. */
const groundsOf = ({ groundingMetadata, citationMetadata }: JsonObject): string[] => {
  const grounds = object(groundingMetadata)
  const chunks = list(grounds?.groundingChunks).map((chunk) => {
    const source = Object.values(object(chunk) ?? {}).find(isObject)
    return text(source?.uri) ?? text(source?.sourceUri) ?? ''
  })
  const indices = list(grounds?.groundingSupports).flatMap((support) => list(object(support)?.groundingChunkIndices))
  const supporting = indices.map((index) => chunks[Number(index)] ?? '')
  const recited = object(citationMetadata)
  const uris = [...objects(recited?.citations), ...objects(recited?.citationSources)].map(({ uri }) => text(uri) ?? '')
  return [...(supporting.length > 0 ? supporting : chunks), ...uris]
}

const geminiCounts = (usage: JsonObject): Counts => ({
  input: count(usage.promptTokenCount) + count(usage.toolUsePromptTokenCount),
  output: count(usage.candidatesTokenCount) + count(usage.thoughtsTokenCount),
  cacheRead: count(usage.cachedContentTokenCount),
  cacheWrite: 0,
  reasoning: count(usage.thoughtsTokenCount),
})

// ── Bedrock Converse ─────────────────────────────────────────────────────────────────────────────────────────────

const sourceOf = (citation: Json): string =>
  text(object(object(object(citation)?.location)?.web)?.url) ?? text(object(citation)?.source) ?? ''

const converseCounts = (usage: JsonObject | undefined): Counts | null => {
  if (!usage) return null
  const cacheRead = count(usage.cacheReadInputTokens)
  const cacheWrite = count(usage.cacheWriteInputTokens)
  const input = count(usage.inputTokens) + cacheRead + cacheWrite
  const output = count(usage.outputTokens)
  // Nova has no sum in the streams of InvokeModel.
  assert.equal(input + output, count(usage.totalTokens ?? input + output))
  return { input, output, cacheRead, cacheWrite, reasoning: 0 }
}

const converse = (body: JsonObject): Said => {
  const blocks = objects(object(object(body.output)?.message)?.content)
  const uses = each(blocks, 'toolUse')
  const cited = each(blocks, 'citationsContent')
  return {
    ...NOTHING,
    text: blocks
      .map((block) => {
        const told = objects(object(block.citationsContent)?.content).map((part) => text(part.text) ?? '')
        return (text(block.text) ?? '') + told.join('')
      })
      .join(''),
    reasoning: plain(
      blocks.map(({ reasoningContent }) => text(object(object(reasoningContent)?.reasoningText)?.text) ?? ''),
    ),
    calls: uses
      .filter(({ type }) => type !== 'server_tool_use')
      .map(({ toolUseId, name, input }) => ({
        id: text(toolUseId) ?? '',
        name: text(name) ?? '',
        input: input ?? {},
      })),
    cited: addresses(cited.flatMap(({ citations }) => list(citations).map(sourceOf))),
    reason: text(body.stopReason) ?? '',
    usage: converseCounts(object(body.usage)),
    foreign: blocks.filter(({ toolUse, toolResult }) => toolResult || object(toolUse)?.type === 'server_tool_use'),
  }
}

/** The stream as the answer it makes. */
const converseStream = (events: readonly JsonObject[]): Said => {
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
      const thought = text(object(delta.reasoningContent)?.text)
      const input = text(object(delta.toolUse)?.input)
      if (words !== undefined) block.text = (text(block.text) ?? '') + words
      if (thought !== undefined) {
        const before = text(object(object(block.reasoningContent)?.reasoningText)?.text) ?? ''
        block.reasoningContent = { reasoningText: { text: before + thought } }
      }
      if (input !== undefined) inputs.set(at, (inputs.get(at) ?? '') + input)
      if (delta.citation) cited.push(sourceOf(delta.citation))
    }
    reason = object(event.messageStop)?.stopReason ?? reason
    usage = object(object(event.metadata)?.usage) ?? usage
  }
  for (const [at, block] of blocks.entries())
    if (isObject(block?.toolUse)) block.toolUse = { ...block.toolUse, input: contentOf(inputs.get(at)) }
  const content = blocks.filter((block) => block !== undefined)
  const said = converse({ output: { message: { content } }, stopReason: reason, ...(usage && { usage }) })
  return { ...said, cited: addresses(cited) }
}

// ── Cohere ───────────────────────────────────────────────────────────────────────────────────────────────────────

const citedBy = (citation: Json): string[] =>
  // What the plan and the thoughts rest on is not told of the text.
  ['PLAN', 'THINKING_CONTENT'].includes(text(object(citation)?.type) ?? '')
    ? []
    : objects(object(citation)?.sources).map((source) => {
        const given = object(source.document) ?? object(source.tool_output)
        return text(given?.url) ?? text(given?.uri) ?? ''
      })

const cohereCounts = (usage: JsonObject | undefined): Counts | null => {
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

const cohereArguments = (written: Json | undefined): Json => contentOf(written === 'null' ? '' : written)

const cohere = (body: JsonObject): Said => {
  const message = object(body.message)
  const content = objects(message?.content)
  return {
    ...NOTHING,
    text: content.map((part) => text(part.text) ?? '').join(''),
    reasoning: plain([text(message?.tool_plan) ?? '', ...content.map((part) => text(part.thinking) ?? '')]),
    calls: objects(message?.tool_calls).map((call) => {
      const called = object(call.function)
      return { id: text(call.id) ?? '', name: text(called?.name) ?? '', input: cohereArguments(called?.arguments) }
    }),
    cited: addresses(list(message?.citations).flatMap(citedBy)),
    reason: text(body.finish_reason) ?? '',
    usage: cohereCounts(object(body.usage)),
  }
}

/** The stream as the answer it makes. */
const cohereStream = (events: readonly JsonObject[]): Said => {
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
  return cohere({
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

const ollama = (lines: readonly JsonObject[]): Said => {
  const messages = lines.map((line) => object(line.message) ?? {})
  const last = lines.findLast(({ done }) => done === true)
  return {
    ...NOTHING,
    text: messages.map(({ content }) => text(content) ?? '').join(''),
    reasoning: plain(messages.map(({ thinking }) => text(thinking) ?? '')),
    calls: messages.flatMap(({ tool_calls }) =>
      objects(tool_calls).map((call) => {
        const called = object(call.function)
        return { id: text(call.id) ?? '', name: text(called?.name) ?? '', input: called?.arguments ?? {} }
      }),
    ),
    reason: text(last?.done_reason) ?? '',
    usage: {
      ...{ input: count(last?.prompt_eval_count), output: count(last?.eval_count) },
      ...{ cacheRead: count(last?.prompt_eval_cached_count), cacheWrite: 0, reasoning: 0 },
    },
  }
}

// ── All of them ──────────────────────────────────────────────────────────────────────────────────────────────────

const chatLike = shared('openai-chat', hasReason)

export const hearing: { readonly [name in UpstreamProtocolName]: Hearing } = {
  'openai-chat': chatLike,
  'openai-responses': shared('openai-responses', ({ type }) =>
    /^response\.(completed|incomplete|failed)$/.test(text(type) ?? ''),
  ),
  'anthropic-messages': shared('anthropic-messages', ({ delta }) => text(object(delta)?.stop_reason) !== undefined),
  // Mistral's answer says what chat completions do, lists in place of texts included.
  mistral: chatLike,
  gemini: {
    // A stream asked for without `alt=sse` is one list.
    whole: (body) => gemini(objects(Array.isArray(body) ? body : [body])),
    streamed: gemini,
    end: (event) => objects(event.candidates).some(({ finishReason }) => finishReason !== undefined),
    names: ({ responseId, modelVersion }) => ({ id: responseId, model: modelVersion }),
  },
  'bedrock-converse': {
    whole: (body) => converse(object(body) ?? {}),
    streamed: converseStream,
    end: (event) => event.messageStop !== undefined,
    names: () => ({}),
  },
  cohere: {
    whole: (body) => cohere(object(body) ?? {}),
    streamed: cohereStream,
    end: ({ type }) => type === 'message-end',
    names: ({ id }) => ({ id }),
  },
  ollama: {
    whole: (body) => ollama(objects([body])),
    streamed: ollama,
    end: ({ done }) => done === true,
    names: ({ model }) => ({ model }),
  },
}
