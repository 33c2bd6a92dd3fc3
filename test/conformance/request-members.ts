/** Removes the members of a request one by one, to check that a translation loses none of them silently. */
import type { ProtocolName } from '../../src/core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../src/core/json.ts'

/** A path without its list indices. */
export const withoutIndices = (path: string): string => path.replaceAll(/\[\d+\]/g, '[]')

/** Values of the client that are carried unchanged, so their members are not removed. */
const OPAQUE =
  /(^|\.)(parameters|input_schema|schema|input_examples|metadata|logit_bias|arguments)$|content\[\]\.input$/

export type Member = { readonly path: string; readonly value: Json; readonly without: JsonObject }

/** Every member of a body, with a copy of the body without it. */
export const membersOf = (body: JsonObject): Generator<Member> => membersOfObject(body, '', (whole) => whole)

function* membersOfObject(
  body: JsonObject,
  path: string,
  rebuild: (value: JsonObject) => JsonObject,
): Generator<Member> {
  for (const [name, value] of Object.entries(body)) {
    if (value === null || value === undefined) continue
    const at = path === '' ? name : `${path}.${name}`
    const { [name]: _, ...without } = body
    yield { path: at, value, without: rebuild(without) }
    if (!OPAQUE.test(withoutIndices(at)))
      yield* membersOfValue(value, at, (inner) => rebuild({ ...body, [name]: inner }))
  }
}

function* membersOfValue(value: Json, path: string, rebuild: (value: Json) => JsonObject): Generator<Member> {
  if (isObject(value)) yield* membersOfObject(value, path, rebuild)
  else if (isList(value))
    for (const [index, entry] of value.entries())
      yield* membersOfValue(entry, `${path}[${index}]`, (inner) => rebuild(value.with(index, inner)))
}

/** Members that can be absent without any difference, and why. */
const REDUNDANT_MEMBERS: readonly {
  readonly path: RegExp
  readonly value?: RegExp
  readonly to?: ProtocolName
  readonly why: string
}[] = [
  { path: /(^|\.)type$/, why: 'the type follows from the members that are sent' },
  { path: /./, value: /^(false|""|\[\]|\{\}|"\{\}")$/, why: 'an empty or false value equals an absent one' },
  { path: /^truncation$/, value: /"auto"/, why: 'the gateway truncates itself and reports what it removed' },
  { path: /^n$/, value: /^1$/, why: 'one answer is the default' },
  { path: /^(frequency|presence)_penalty$/, value: /^0$/, why: 'the default' },
  {
    path: /^top_p$/,
    value: /^1$/,
    to: 'anthropic-messages',
    why: 'the default, and rejected together with a temperature',
  },
  { path: /detail$/, value: /"auto"/, why: 'the default' },
  { path: /^service_tier$/, value: /"auto"/, why: 'the default' },
  { path: /^function_call$/, value: /"auto"/, why: 'the default' },
  { path: /^parallel_tool_calls$/, value: /true/, why: 'the default' },
  { path: /^text\.format$/, value: /^\{"type":"text"\}$/, why: 'the default' },
  {
    path: /^stream_options(\.include_usage)?$/,
    why: 'the gateway always requests usage; the client receives it if requested',
  },
  {
    path: /format(\.json_schema)?\.name$/,
    value: /^"response"$/,
    why: 'the name that the gateway gives to a format without one',
  },
  ...(['anthropic-messages', 'gemini', 'cohere', 'ollama'] as const).map((to) => ({
    path: /format(\.json_schema)?\.name$/,
    to,
    why: 'its formats have no name; it becomes the title of a schema without one',
  })),
  { path: /(^tools\[\]|format)\.strict$/, value: /true/, why: 'the default of responses; messages are always strict' },
  { path: /^response_format\.json_schema\.strict$/, to: 'anthropic-messages', why: 'its formats are always strict' },
  {
    path: /^text\.format\.description$/,
    to: 'anthropic-messages',
    why: 'the schema has the same description (one recording)',
  },
  {
    path: /^input\[\]\.namespace$/,
    why: 'repeats the name of a single tool; otherwise it is part of the name (tool-names.test.ts)',
  },
  {
    path: /^input\[\]\.tools\[\]\./,
    why: 'a tool that a search found; it is in the list of tools too, and no longer deferred',
  },
  {
    path: /^include$/,
    value: /^\["reasoning.encrypted_content"\]$/,
    to: 'anthropic-messages',
    why: 'it always sends the signature',
  },
  {
    path: /^thinking$/,
    value: /^\{"type":"enabled"\}$/,
    to: 'anthropic-messages',
    why: 'the effort beside it has the same meaning',
  },
  { path: /^messages\[\]\.reasoning$/, why: 'reasoning_content beside it has the same text' },
  {
    path: /^messages\[\]\.reasoning_details\[\]\.(format|index)$/,
    why: 'describes the signature; lost together with it',
  },
  {
    path: /^messages\[\]\.content$/,
    value: /^"\s+"$/,
    to: 'anthropic-messages',
    why: 'blank texts are rejected there',
  },
  {
    path: /^input\[\]\.(id|status)$/,
    why: 'items are identified by call_id; an unknown id would be looked up',
  },
  { path: /^stream$/, to: 'gemini', why: 'the path selects streaming' },
  {
    path: /(^response_format\.json_schema|^text\.format)\.strict$/,
    to: 'gemini',
    why: 'its formats are always strict',
  },
  {
    path: /^text\.format\.description$/,
    to: 'gemini',
    why: 'the schema has the same description (one recording)',
  },
  {
    path: /^include$/,
    value: /^\["reasoning.encrypted_content"\]$/,
    to: 'gemini',
    why: 'it always sends the signature',
  },
  { path: /^tool_choice$/, value: /^\{"type":"auto"\}$/, why: 'the default; no tool is left' },
  { path: /^logprobs$/, value: /true/, to: 'gemini', why: 'top_logprobs beside it implies it' },
  { path: /^logprobs$/, value: /true/, to: 'openai-chat', why: 'top_logprobs implies it' },
  { path: /^include$/, value: /^\["message.output_text.logprobs"\]$/, why: 'top_logprobs implies it' },
  { path: /^thinking$/, value: /^\{"type":"adaptive"\}$/, why: 'the effort beside it implies it' },
  { path: /^tools\[\]\.function\.strict$/, value: /true/, to: 'gemini', why: 'one mode makes all tools strict' },
  { path: /^reasoning\.summary$/, to: 'gemini', why: 'it returns reasoning whenever reasoning is enabled' },
  { path: /^service_tier$/, value: /"(default|standard_only)"/, to: 'gemini', why: 'it has only this one' },
  { path: /^stream$/, to: 'bedrock-converse', why: 'the path selects streaming' },
  {
    path: /^messages\[\]\.content$/,
    value: /^"\s+"$/,
    to: 'bedrock-converse',
    why: 'blank texts are rejected there',
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
    why: 'the default; other values are reported',
  },
  { path: /^messages\[\]\.content\[\]\.title$/, to: 'gemini', why: 'sent as the filename' },
  { path: /source\.media_type$/, value: /"text\/plain"/, why: 'the type of the source implies it' },
  { path: /^tool_choice$/, value: /"auto"/, to: 'cohere', why: 'its default' },
  { path: /format(\.json_schema)?\.strict$/, to: 'cohere', why: 'its formats are always strict' },
  { path: /^text\.format\.description$/, to: 'cohere', why: 'the schema has the same description (one recording)' },
  {
    path: /^include$/,
    value: /^\["reasoning.encrypted_content"\]$/,
    to: 'cohere',
    why: 'its reasoning is not encrypted',
  },
  {
    path: /^(reasoning\.summary|thinking\.display)$/,
    to: 'cohere',
    why: 'it returns reasoning whenever reasoning is enabled',
  },
  {
    path: /^thinking$/,
    value: /^\{"type":"enabled"\}$/,
    to: 'cohere',
    why: 'the effort beside it has the same meaning',
  },
  { path: /^reasoning_effort$/, value: /"high"/, to: 'cohere', why: '`thinking` beside it has the same meaning' },
  {
    path: /^reasoning$/,
    value: /^\{"summary":"auto"\}$/,
    to: 'cohere',
    why: '`thinking` beside it has the same meaning',
  },
  { path: /^service_tier$/, value: /"(default|standard_only)"/, to: 'cohere', why: 'it has only this one' },
  { path: /^logprobs$/, value: /true/, to: 'cohere', why: 'top_logprobs beside it implies it' },
  { path: /\.citations$/, value: /^\{"enabled":true\}$/, to: 'cohere', why: 'it always cites documents' },
  { path: /\.signature$/, to: 'mistral', why: 'valid only for the provider that made it; the text is kept' },
  { path: /^reasoning\.summary$/, to: 'mistral', why: 'it returns reasoning whenever reasoning is enabled' },
  { path: /^service_tier$/, value: /"(default|standard_only)"/, to: 'mistral', why: 'it has only this one' },
  { path: /\.signature$/, to: 'ollama', why: 'valid only for the provider that made it; the text is kept' },
  { path: /^reasoning\.summary$/, to: 'ollama', why: 'it returns reasoning whenever reasoning is enabled' },
  { path: /^service_tier$/, value: /"(default|standard_only)"/, to: 'ollama', why: 'it has only this one' },
  { path: /^tool_choice$/, value: /"auto"/, to: 'ollama', why: 'its only mode' },
  { path: /^logprobs$/, value: /true/, to: 'ollama', why: 'top_logprobs beside it implies it' },
  { path: /format(\.json_schema)?\.strict$/, to: 'ollama', why: 'its formats are always strict' },
  { path: /^text\.format\.description$/, to: 'ollama', why: 'the schema has the same description (one recording)' },
]

/** Whether removing this member makes no difference at this format. */
export const isRedundant = (kind: string, value: string, to: ProtocolName): boolean =>
  REDUNDANT_MEMBERS.some(
    (rule) => rule.path.test(kind) && (rule.value?.test(value) ?? true) && (rule.to === undefined || rule.to === to),
  )

/** Whether the path or a parent of it is reported as lost. */
export const isReported = (losses: readonly string[], path: string): boolean =>
  losses.some((at) => path === at || path.startsWith(`${at}.`) || path.startsWith(`${at}[`))

/** Whether the path exists in this body. */
export const pathExists = (body: JsonObject, path: string): boolean => {
  let value: Json | undefined = body
  for (const [step] of path.matchAll(/[^.[\]]+/g)) {
    if (isList(value)) value = value[Number(step)]
    else if (isObject(value) && Object.hasOwn(value, step)) value = value[step]
    else return false
  }
  return value !== undefined
}
