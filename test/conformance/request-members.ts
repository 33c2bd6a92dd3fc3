/** A request taken apart, member by member: to see that none of them can be left out without anybody noticing. */
import type { ProtocolName } from '../../src/core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../src/core/json.ts'

/** A path without its indices: what kind of thing it is. */
export const kindOf = (path: string): string => path.replaceAll(/\[\d+\]/g, '[]')

/** What is the client's own inside: carried as one value, never looked into. */
const OPAQUE =
  /(^|\.)(parameters|input_schema|schema|input_examples|metadata|logit_bias|arguments)$|content\[\]\.input$/

export type Member = { readonly path: string; readonly value: Json; readonly without: JsonObject }

/** Every member of a body, each with the body it is missing from. */
export const membersOf = (body: JsonObject): Generator<Member> => under(body, '', (whole) => whole)

function* under(body: JsonObject, path: string, rebuild: (value: JsonObject) => JsonObject): Generator<Member> {
  for (const [name, value] of Object.entries(body)) {
    if (value === null || value === undefined) continue
    const at = path === '' ? name : `${path}.${name}`
    const { [name]: _, ...without } = body
    yield { path: at, value, without: rebuild(without) }
    if (!OPAQUE.test(kindOf(at))) yield* inside(value, at, (inner) => rebuild({ ...body, [name]: inner }))
  }
}

function* inside(value: Json, path: string, rebuild: (value: Json) => JsonObject): Generator<Member> {
  if (isObject(value)) yield* under(value, path, rebuild)
  else if (isList(value))
    for (const [index, entry] of value.entries())
      yield* inside(entry, `${path}[${index}]`, (inner) => rebuild(value.with(index, inner)))
}

/** Members whose absence means the same, and why. */
const SAME_WITHOUT: readonly {
  readonly path: RegExp
  readonly value?: RegExp
  readonly to?: ProtocolName
  readonly why: string
}[] = [
  { path: /(^|\.)type$/, why: 'the kind of a thing is said by where the rest of it goes' },
  { path: /./, value: /^(false|""|\[\]|\{\}|"\{\}")$/, why: 'nothing, or no, is what absence says' },
  { path: /^truncation$/, value: /"auto"/, why: 'done by the gateway itself, with what is left out named then' },
  { path: /^n$/, value: /^1$/, why: 'one answer is what everybody gives' },
  { path: /^(frequency|presence)_penalty$/, value: /^0$/, why: 'the default' },
  { path: /^top_p$/, value: /^1$/, to: 'anthropic-messages', why: 'the default, and beside a temperature refused' },
  { path: /detail$/, value: /"auto"/, why: 'the default' },
  { path: /^service_tier$/, value: /"auto"/, why: 'the default' },
  { path: /^function_call$/, value: /"auto"/, why: 'the default' },
  { path: /^parallel_tool_calls$/, value: /true/, why: 'the default' },
  { path: /^text\.format$/, value: /^\{"type":"text"\}$/, why: 'the default' },
  {
    path: /^stream_options(\.include_usage)?$/,
    why: 'upstreams are always asked for the usage; the client is told it or not',
  },
  { path: /format(\.json_schema)?\.name$/, value: /^"response"$/, why: 'the name of a format that has none' },
  ...(['anthropic-messages', 'gemini', 'cohere', 'ollama'] as const).map((to) => ({
    path: /format(\.json_schema)?\.name$/,
    to,
    why: 'its formats have no name: it becomes the title of a schema that has none',
  })),
  { path: /(^tools\[\]|format)\.strict$/, value: /true/, why: 'the default of responses; messages are always strict' },
  { path: /^response_format\.json_schema\.strict$/, to: 'anthropic-messages', why: 'its formats are always strict' },
  {
    path: /^text\.format\.description$/,
    to: 'anthropic-messages',
    why: 'the schema says the same already (one recording)',
  },
  {
    path: /^input\[\]\.namespace$/,
    why: 'of a tool that stands alone its name again; of another it makes the name (names.test.ts)',
  },
  {
    path: /^input\[\]\.tools\[\]\./,
    why: 'a tool that was found: it is listed as well and said there, and that it was deferred is over',
  },
  {
    path: /^include$/,
    value: /^\["reasoning.encrypted_content"\]$/,
    to: 'anthropic-messages',
    why: 'it always sends the proof',
  },
  {
    path: /^thinking$/,
    value: /^\{"type":"enabled"\}$/,
    to: 'anthropic-messages',
    why: 'said again by the effort beside it',
  },
  { path: /^messages\[\]\.reasoning$/, why: 'the same words as in reasoning_content beside it' },
  {
    path: /^messages\[\]\.reasoning_details\[\]\.(format|index)$/,
    why: 'says whose proof it is and which; lost with the proof',
  },
  { path: /^messages\[\]\.content$/, value: /^"\s+"$/, to: 'anthropic-messages', why: 'blank texts are refused there' },
  {
    path: /^input\[\]\.(id|status)$/,
    why: 'items are known by their call_id; ids of another provider would be looked up',
  },
  { path: /^stream$/, to: 'gemini', why: 'said by the path' },
  {
    path: /(^response_format\.json_schema|^text\.format)\.strict$/,
    to: 'gemini',
    why: 'its formats are always strict',
  },
  {
    path: /^text\.format\.description$/,
    to: 'gemini',
    why: 'the schema says the same already (one recording)',
  },
  {
    path: /^include$/,
    value: /^\["reasoning.encrypted_content"\]$/,
    to: 'gemini',
    why: 'it always sends the signature',
  },
  { path: /^tool_choice$/, value: /^\{"type":"auto"\}$/, why: 'the default; no tool is left to choose' },
  { path: /^logprobs$/, value: /true/, to: 'gemini', why: 'said again by top_logprobs beside it' },
  { path: /^logprobs$/, value: /true/, to: 'openai-chat', why: 'top_logprobs implies it' },
  { path: /^include$/, value: /^\["message.output_text.logprobs"\]$/, why: 'top_logprobs implies it' },
  { path: /^thinking$/, value: /^\{"type":"adaptive"\}$/, why: 'the effort beside it implies it' },
  { path: /^tools\[\]\.function\.strict$/, value: /true/, to: 'gemini', why: 'asked for all of them by one mode' },
  { path: /^reasoning\.summary$/, to: 'gemini', why: 'whoever asks for thoughts is shown them' },
  { path: /^service_tier$/, value: /"(default|standard_only)"/, to: 'gemini', why: 'it has only this one' },
  { path: /^stream$/, to: 'bedrock-converse', why: 'said by the path' },
  {
    path: /^messages\[\]\.content$/,
    value: /^"\s+"$/,
    to: 'bedrock-converse',
    why: 'blank texts are refused there',
  },
  {
    path: /(^response_format\.json_schema|^text\.format)\.strict$/,
    to: 'bedrock-converse',
    why: 'its formats are always strict',
  },
  {
    path: /^include$/,
    value: /^\["reasoning.encrypted_content"\]$/,
    to: 'bedrock-converse',
    why: 'it always sends the signature',
  },
  {
    path: /^service_tier$/,
    value: /"(default|standard_only)"/,
    to: 'bedrock-converse',
    why: 'the default; the others are named',
  },
  { path: /^messages\[\]\.content\[\]\.title$/, to: 'gemini', why: 'named as the filename it is' },
  { path: /source\.media_type$/, value: /"text\/plain"/, why: 'said by the type of the source' },
  { path: /^tool_choice$/, value: /"auto"/, to: 'cohere', why: 'what it does when nothing is said' },
  { path: /format(\.json_schema)?\.strict$/, to: 'cohere', why: 'its formats are always strict' },
  { path: /^text\.format\.description$/, to: 'cohere', why: 'the schema says the same already (one recording)' },
  { path: /^include$/, value: /^\["reasoning.encrypted_content"\]$/, to: 'cohere', why: 'its thoughts come unsealed' },
  { path: /^(reasoning\.summary|thinking\.display)$/, to: 'cohere', why: 'whoever has it think is shown the thoughts' },
  { path: /^thinking$/, value: /^\{"type":"enabled"\}$/, to: 'cohere', why: 'said again by the effort beside it' },
  { path: /^reasoning_effort$/, value: /"high"/, to: 'cohere', why: 'said again by `thinking` beside it' },
  { path: /^reasoning$/, value: /^\{"summary":"auto"\}$/, to: 'cohere', why: 'the same' },
  { path: /^service_tier$/, value: /"(default|standard_only)"/, to: 'cohere', why: 'it has only this one' },
  { path: /^logprobs$/, value: /true/, to: 'cohere', why: 'said again by top_logprobs beside it' },
  { path: /\.citations$/, value: /^\{"enabled":true\}$/, to: 'cohere', why: 'its documents are always cited' },
  { path: /\.signature$/, to: 'mistral', why: 'proves nothing to another than its maker; the words travel' },
  { path: /^reasoning\.summary$/, to: 'mistral', why: 'whoever has it think is shown the thoughts' },
  { path: /^service_tier$/, value: /"(default|standard_only)"/, to: 'mistral', why: 'it has only this one' },
  { path: /\.signature$/, to: 'ollama', why: 'proves nothing to another than its maker; the words travel' },
  { path: /^reasoning\.summary$/, to: 'ollama', why: 'whoever has it think is shown the thoughts' },
  { path: /^service_tier$/, value: /"(default|standard_only)"/, to: 'ollama', why: 'it has only this one' },
  { path: /^tool_choice$/, value: /"auto"/, to: 'ollama', why: 'its only way' },
  { path: /^logprobs$/, value: /true/, to: 'ollama', why: 'said again by top_logprobs beside it' },
  { path: /format(\.json_schema)?\.strict$/, to: 'ollama', why: 'its formats are always strict' },
  { path: /^text\.format\.description$/, to: 'ollama', why: 'the schema says the same already (one recording)' },
]

export const isSame = (kind: string, value: string, to: ProtocolName): boolean =>
  SAME_WITHOUT.some(
    (rule) => rule.path.test(kind) && (rule.value?.test(value) ?? true) && (rule.to === undefined || rule.to === to),
  )

/** It is named itself, or what it is a part of is. */
export const isNamed = (losses: readonly string[], path: string): boolean =>
  losses.some((at) => path === at || path.startsWith(`${at}.`) || path.startsWith(`${at}[`))

/** Whether a path names a member of this body, step by step. */
export const resolves = (body: JsonObject, path: string): boolean => {
  let value: Json | undefined = body
  for (const [step] of path.matchAll(/[^.[\]]+/g)) {
    if (isList(value)) value = value[Number(step)]
    else if (isObject(value) && Object.hasOwn(value, step)) value = value[step]
    else return false
  }
  return value !== undefined
}
