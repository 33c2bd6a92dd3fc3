/** Finds the member that a provider refuses: by the error's `param`, or by a sentence that names a member of the request. */
import type { Failure } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, readJson } from '../../core/json.ts'
import { survey } from '../../core/json-text.ts'

/** Members that change the request's meaning. They are never left out; the router tries the next target. */
const ESSENTIAL: ReadonlySet<string> = new Set(
  'model messages input system instructions stream tools tool_choice functions function_call response_format text output_config n previous_response_id conversation prompt role content tool_calls tool_call_id type id call_id name arguments output summary encrypted_content max_tokens max_completion_tokens max_output_tokens max_new_tokens num_predict contents system_instruction tool_config response_schema response_json_schema response_mime_type format web_search_options modalities response_modalities candidate_count'.split(
    ' ',
  ),
)

/** Objects with settings, in which a member may be refused: Gemini, Bedrock, Ollama, responses. */
const CONTAINERS: ReadonlySet<string> = new Set('generationConfig inferenceConfig options reasoning text'.split(' '))

const isEssential = (name: string): boolean => ESSENTIAL.has(name) || ESSENTIAL.has(snakeCase(name))

/** The members of a body that may be left out, for `refusedMember`. The others, which are large, are not parsed. */
export const optionalMembers = (body: string): JsonObject => {
  const surveyed = survey(body, Number.POSITIVE_INFINITY)
  const members: { [name: string]: Json } = {}
  if (!surveyed.ok) return members
  for (const { key, value, end } of surveyed.members) {
    const read = CONTAINERS.has(key) || !isEssential(key) ? readJson(body.slice(value, end)) : undefined
    if (read !== undefined) members[key] = read
  }
  return members
}

/** A member that a provider refuses. */
export type RefusedMember = {
  /** In the body that was sent: `store`, `generationConfig.topK`, `messages.foo`. */
  readonly path: string
  /** Only this value of it is refused. Absent: the member is. */
  readonly value?: Json
  /** The error names the member as the cause. Otherwise its sentence only mentions it. */
  readonly certain: boolean
}

/**
 * The refused member, if the request keeps its meaning without it. `optional`: the members of the body that may be left out.
 * Undefined: none is named, or it is essential or not in the body.
 */
export const refusedMember = (failure: Failure, optional: JsonObject): RefusedMember | undefined => {
  if (failure.kind !== 'incompatible') return undefined
  const { param, upstream } = failure
  const message = upstream?.message ?? ''
  const isNamed = upstream?.code === 'unknown_parameter' || upstream?.code === 'unsupported_parameter'
  const quoted = (isNamed ? param : undefined) ?? firstMatch(message, MESSAGE_PATTERNS)
  if (quoted !== undefined) {
    const inList = listMember(quoted, message)
    if (inList !== undefined) return { path: inList, certain: true }
  }
  const named = quoted ?? param
  const found = named === undefined ? mentioned(message, optional) : present(named, optional)
  if (!found) return undefined
  const { path, value } = found
  const certain = named !== undefined
  // A member is refused as a whole if the error says so, or if its default is the only value.
  const whole = isNamed || quoted !== undefined || ONLY_VALUE.test(message) || !ABOUT_VALUE.test(message)
  return whole || !isSmall(value) ? { path, certain } : { path, value, certain }
}

/** The member that a refusal is about, in a form that can be compared between vendors. Undefined: it names none. */
export const comparableMember = (failure: Failure, optional: JsonObject): string | undefined => {
  const { param } = failure
  const path = param ?? refusedMember(failure, optional)?.path
  if (path === undefined) return undefined
  const steps = snakeCase(path)
    .replaceAll(/\[\d{1,6}\]|\.\d{1,6}(?=\.|$)/g, '')
    .split('.')
    .filter((step) => step !== 'body' && !CONTAINERS.has(camelCase(step)))
  const [root = '', ...rest] = steps.map((step) => SAME[step] ?? step)
  // The whole conversation, or nothing: that says too little.
  return root === '' || (root === 'messages' && rest.length === 0) ? undefined : [root, ...rest].join('.')
}

/** Names of one member in different formats. */
const SAME: { readonly [name: string]: string } = {
  input: 'messages',
  contents: 'messages',
  max_completion_tokens: 'max_tokens',
  max_output_tokens: 'max_tokens',
  stop_sequences: 'stop',
  effort: 'reasoning_effort',
}

/** Paths in a list of messages or items: `messages[1].foo`, `messages.2.assistant.foo`. */
const IN_LIST =
  /^(?:body\.)?(messages|input)(?:\[\d{1,6}\]|\.\d{1,6})(?:\.(?:assistant|user|system|tool))?\.([a-z][a-z0-9_]{0,60})$/

/** Error messages that contain the path or name of a refused member. Repetitions are bounded: the text is untrusted. */
const MESSAGE_PATTERNS: readonly RegExp[] = [
  /property '([^']{1,200})' is unsupported/i,
  /extra inputs are not permitted, field: '([^']{1,200})'/i,
  /^([a-z0-9_.[\]]{1,200}): extra inputs are not permitted/i,
  /^model .{1,100} does not support parameter ([a-z_]{1,60})/i,
  /^argument not supported on this model: ([a-z_]{1,60})/i,
  /^unknown field: parameter '([^']{1,60})'/i,
  /^(?:unrecognized|unknown|unsupported) (?:request )?(?:argument|parameter|field)s?(?: supplied)?: ['"`]?([a-zA-Z_.]{1,60})/i,
]

const firstMatch = (message: string, patterns: readonly RegExp[]): string | undefined =>
  patterns.map((pattern) => pattern.exec(message)?.[1]).find(Boolean)

/** `messages.foo`; undefined for paths elsewhere and for essential members. */
const listMember = (path: string, message: string): string | undefined => {
  const [, list, name] = IN_LIST.exec(snakeCase(path)) ?? []
  // Groq reports message and member separately: "('messages.1' : property 'foo' is unsupported)".
  const isSeparate = /'messages\.\d{1,6}' : property/.test(message) && /^[a-z][a-z0-9_]{0,60}$/.test(path)
  const [root, member] = isSeparate ? ['messages', path] : [list, name]
  return root === undefined || member === undefined || ESSENTIAL.has(member) ? undefined : `${root}.${member}`
}

type Present = { readonly path: string; readonly value: Json }

/** All optional members, each with its path; those of containers too. */
const membersOf = (optional: JsonObject): readonly Present[] =>
  Object.entries(optional).flatMap(([name, value]): Present[] => {
    if (value === undefined) return []
    const inside = CONTAINERS.has(name) && isObject(value) ? Object.entries(value) : []
    return [
      ...inside.flatMap(([inner, one]) =>
        one === undefined || isEssential(inner) ? [] : [{ path: `${name}.${inner}`, value: one }],
      ),
      ...(inside.length === 0 ? [{ path: name, value }] : []),
    ]
  })

const lastStep = (path: string): string => path.slice(path.lastIndexOf('.') + 1)

/** The member with this path or name, which may be in the vendor's own form: `body.topK`, `reasoning_effort`. */
const present = (named: string, optional: JsonObject): Present | undefined => {
  const name = snakeCase(named.replace(/^body\./, ''))
  const members = membersOf(optional)
  return (
    members.find(({ path }) => snakeCase(path) === name) ??
    members.find(({ path }) => snakeCase(lastStep(path)) === lastStep(name) && !/[[]|\.\d/.test(named)) ??
    (name === 'reasoning' && optional.reasoning !== undefined ? { path: name, value: optional.reasoning } : undefined)
  )
}

/** Names that are ordinary words of error messages: they count only in certain phrases. */
const ORDINARY: ReadonlySet<string> = new Set(
  'user store stop options container context audio text thinking reasoning prediction include metadata seed truncation background think summary'.split(
    ' ',
  ),
)

/** Phrases in which an ordinary word is the name of a member. */
const ORDINARY_PHRASES: readonly string[] = [
  ...["'?'", '"?"', '`?`', 'parameter: ?', 'parameter ?', 'argument: ?', 'argument ?', 'field: ?', 'field ?'],
  ...['? parameter', '? is not', '? is unsupported', '? must be'],
]

/** The optional member that the message mentions first: by its name, in words (`top p`), or by its last word (`Penalty`). */
const mentioned = (message: string, optional: JsonObject): Present | undefined => {
  const text = message.slice(0, 1_000)
  const lower = text.toLowerCase()
  const members = membersOf(optional)
  const first = (placeOf: (name: string) => number) =>
    members
      .map((member) => ({ member, at: placeOf(snakeCase(lastStep(member.path))) }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at)[0]?.member
  return first((name) => placeOfName(text, lower, name)) ?? first((name) => placeOfWord(lower, LAST_WORDS[name] ?? ''))
}

/** Last words by which messages name a member. */
const LAST_WORDS: { readonly [name: string]: string } = {
  presence_penalty: 'penalty',
  frequency_penalty: 'penalty',
  response_logprobs: 'logprobs',
  top_logprobs: 'logprobs',
}

/** The place of a member's name in the message: as `top_p`, `topP` or `top p`; -1: none. */
const placeOfName = (text: string, lower: string, name: string): number => {
  if (ORDINARY.has(name)) {
    const places = ORDINARY_PHRASES.map((phrase) => placeOfWord(lower, phrase.replace('?', name)))
    return Math.max(...places)
  }
  const places = [
    placeOfWord(lower, name),
    placeOfWord(text, camelCase(name)),
    name.includes('_') ? placeOfWord(lower, name.replaceAll('_', ' ')) : -1,
  ].filter((at) => at >= 0)
  return places.length === 0 ? -1 : Math.min(...places)
}

/** The place of a word that is not part of a longer name; -1: none. */
const placeOfWord = (text: string, word: string): number => {
  if (word.length < 3) return -1
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1))
    if (!/\w/.test(text[at - 1] ?? '') && !/\w/.test(text[at + word.length] ?? '')) return at
  return -1
}

/** Only the default is accepted, so the member can be left out whatever its value. */
const ONLY_VALUE =
  /\bonly (?:the default )?\(?['"`]?[\w.]{1,20}['"`]?\)?(?: value)? (?:is|are) (?:allowed|supported|accepted)|\bonly the default/i
/** The value is refused, not the member. */
const ABOUT_VALUE =
  /\bvalues?\b|\bmust be\b|\bonly\b|\brange\b|between|at (?:most|least)|(?:less|greater|larger|smaller) than|m(?:ax|in)imum|[<>]=?|does not support ['"`\d]/i

const isSmall = (value: Json): boolean => !isObject(value) && JSON.stringify(value).length <= 200

/** xAI reports camel case: `presencePenalty`. */
const snakeCase = (path: string): string =>
  path.replaceAll(/[A-Z]/g, (letter, at: number) => `${at === 0 ? '' : '_'}${letter.toLowerCase()}`)
const camelCase = (name: string): string => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
