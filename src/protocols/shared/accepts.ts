/** Adapts a chat request to the members, messages and abilities that a provider accepts (`core/accepts.ts`). */
import type { Ability, Accepts, MemberLimits, ReasoningMember } from '../../core/accepts.ts'
import type { ChatRequest, Part } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, list, text } from '../../core/json.ts'
import { mapMember, withoutMember } from '../../core/json-edit.ts'
import type { Loss } from '../../core/protocol.ts'
import { objectParameters } from './function-parameters.ts'
import { withinLimits } from './limits.ts'
import { asChatFile } from './media-part.ts'
import { detailsOf, isGatewayDetail, reasoningText } from './reasoning-members.ts'

/** Reports a path in the body as dropped. */
type ReportDropped = (path: string) => void

/**
 * The body without members that the provider rejects, and within its limits. Returns the same object if nothing changes.
 * `limits`: the provider's, or those of a translated body.
 */
export const acceptedBody = (
  body: JsonObject,
  accepts: Accepts | undefined,
  limits: MemberLimits | undefined,
  dropped: ReportDropped,
): JsonObject => {
  const allowed = accepts?.refuses ? withoutRefused(body, accepts.refuses, dropped) : body
  const described = accepts?.objectParameters ? withObjectParameters(allowed) : allowed
  const remaining = acceptedMessages(withinLimits(described, limits, dropped), accepts, dropped)
  if (!accepts?.imagesOnly) return remaining
  return mapMember(remaining, 'messages', (message) =>
    isObject(message) ? mapMember(message, 'content', asChatFile) : message,
  )
}

const acceptedMessages = (remaining: JsonObject, accepts: Accepts | undefined, dropped: ReportDropped): JsonObject => {
  // Nearly all messages are accepted as they are: those are found without a closure for each.
  if (!list(remaining.messages).some((message) => isObject(message) && isConcerned(message, accepts))) return remaining
  return mapMember(remaining, 'messages', (message, index) =>
    isObject(message) && isConcerned(message, accepts)
      ? acceptedMessage(message, accepts, (member) => dropped(`messages[${index}].${member}`))
      : message,
  )
}

/** Whether the message may have rejected members: reasoning of the assistant, or any where the message schema is closed. */
const isConcerned = (message: JsonObject, accepts: Accepts | undefined): boolean =>
  accepts?.messages !== undefined || (message.role === 'assistant' && hasReasoning(message))

/** Completes the parameters of functions, in chat completions and in the responses format. Nothing changes for the model. */
const withObjectParameters = (body: JsonObject): JsonObject =>
  mapMember(body, 'tools', (tool) => {
    if (!isObject(tool) || tool.type !== 'function') return tool
    if (isObject(tool.function)) {
      const inner = completed(tool.function)
      return inner === tool.function ? tool : { ...tool, function: inner }
    }
    return completed(tool)
  })

const completed = (declaration: JsonObject): JsonObject => {
  // Without parameters the function has no arguments, which OpenAI accepts.
  const { parameters } = declaration
  const complete = parameters === undefined ? parameters : objectParameters(parameters)
  return complete === parameters ? declaration : { ...declaration, parameters: complete }
}

const withoutRefused = (
  body: JsonObject,
  refuses: NonNullable<Accepts['refuses']>,
  dropped: ReportDropped,
): JsonObject => {
  const refused = Object.keys(refuses).filter((member) => body[member] !== undefined)
  for (const member of refused) if (!isNeutral(body[member], refuses[member])) dropped(member)
  return withoutMember(body, ...refused)
}

/** Objects of a body whose members are settings. */
const CONTAINERS = ['generationConfig', 'inferenceConfig', 'options', 'reasoning', 'text'] as const

/** The body without members that this provider rejected before: in the body, its objects of settings, messages and items. */
export const withoutRefusedPaths = (
  body: JsonObject,
  isRefused: (path: string, value: Json) => boolean,
  dropped: ReportDropped,
): JsonObject => {
  const leave = (from: JsonObject, prefix: string, name: (member: string) => string): JsonObject => {
    const refused = Object.entries(from).flatMap(([member, value]) =>
      value !== undefined && isRefused(prefix + member, value) ? [member] : [],
    )
    for (const member of refused) if (!isNeutral(from[member])) dropped(name(member))
    return withoutMember(from, ...refused)
  }
  let remaining = leave(body, '', (member) => member)
  for (const root of CONTAINERS) {
    const settings = remaining[root]
    if (!isObject(settings)) continue
    const kept = leave(settings, `${root}.`, (member) => `${root}.${member}`)
    if (kept !== settings) remaining = { ...remaining, [root]: kept }
  }
  for (const root of ['messages', 'input']) {
    remaining = mapMember(remaining, root, (item, index) =>
      isObject(item) ? leave(item, `${root}.`, (member) => `${root}[${index}].${member}`) : item,
    )
  }
  return remaining
}

/** Null, the default value, or an empty list or object: dropping it changes nothing. */
const isNeutral = (value: Json | undefined, usual?: Json): boolean =>
  value === null ||
  value === undefined ||
  value === usual ||
  (isList(value) && value.length === 0) ||
  (isObject(value) && Object.keys(value).length === 0)

const acceptedMessage = (message: JsonObject, accepts: Accepts | undefined, dropped: ReportDropped): JsonObject => {
  const reasoned = message.role === 'assistant' ? withReasoning(message, accepts?.reasoning, dropped) : message
  const known = accepts?.messages?.[text(message.role) ?? '']
  return known ? fitClosedSchema(reasoned, known, dropped) : reasoned
}

/** Fits a message into a closed schema. A `refusal` member becomes text of the content. */
const fitClosedSchema = (message: JsonObject, known: readonly string[], dropped: ReportDropped): JsonObject => {
  const unknown = Object.keys(message).filter((member) => message[member] !== undefined && !known.includes(member))
  if (unknown.length === 0) return message
  const refusal = unknown.includes('refusal') ? text(message.refusal) : undefined
  for (const member of unknown)
    if (!isNeutral(message[member]) && !(member === 'refusal' && refusal !== undefined)) dropped(member)
  const rest = withoutMember(message, ...unknown)
  return refusal ? { ...rest, content: withText(message.content, refusal) } : rest
}

const withText = (content: Json | undefined, more: string): Json => {
  if (isList(content)) return [...content, { type: 'text', text: more }]
  return typeof content === 'string' && content !== '' ? `${content}\n\n${more}` : more
}

const MEMBERS: readonly ReasoningMember[] = ['reasoning_content', 'reasoning', 'reasoning_details']

/** Reads the members by their names: a loop over them takes several times as long. */
const hasReasoning = ({ reasoning_content, reasoning, reasoning_details }: JsonObject): boolean =>
  reasoning_content !== undefined || reasoning !== undefined || reasoning_details !== undefined

/**
 * Moves the reasoning of an earlier turn to a member that the provider accepts. Signatures of other formats, packed by
 * the gateway (`isGatewayDetail`), are dropped: no chat completions provider can verify them.
 */
const withReasoning = (
  message: JsonObject,
  taken: readonly ReasoningMember[] | undefined,
  dropped: ReportDropped,
): JsonObject => {
  if (!hasReasoning(message)) return message
  const open = withoutPackedDetails(message, dropped)
  if (!taken) return open
  const refused = MEMBERS.filter((member) => open[member] !== undefined && !taken.includes(member))
  if (refused.length === 0) return open
  const [wanted] = taken
  const thought = reasoningText(open)
  const remaining = withoutMember(open, ...refused)
  if (wanted === undefined || wanted === 'reasoning_details') {
    for (const member of refused) if (!isNeutral(open[member], '')) dropped(member)
    return remaining
  }
  // The text moves to another member; a signature in the details cannot.
  if (refused.includes('reasoning_details') && detailsOf(open).length > 0) dropped('reasoning_details')
  return thought === undefined || reasoningText(remaining) !== undefined
    ? remaining
    : { ...remaining, [wanted]: thought }
}

const withoutPackedDetails = (message: JsonObject, dropped: ReportDropped): JsonObject => {
  const remaining = mapMember(message, 'reasoning_details', (entry, index) => {
    if (!isGatewayDetail(entry)) return entry
    dropped(`reasoning_details[${index}]`)
    return undefined
  })
  const isEmptied = remaining !== message && detailsOf(remaining).length === 0
  return isEmptied ? withoutMember(remaining, 'reasoning_details') : remaining
}

/** The request's paths that need an ability the provider lacks. */
export const missingAbilities = ({ tools, messages }: ChatRequest, lacks: readonly Ability[]): readonly Loss[] =>
  lacks.flatMap((ability) => {
    const parts = messages.flatMap(({ content }) => content.filter((part) => NEEDS[ability](part)))
    const needed = ability === 'tools' ? [...tools, ...parts, ...messages.filter(({ role }) => role === 'tool')] : parts
    return needed.map(({ at }) => ({ path: at, essential: true }))
  })

const NEEDS: { readonly [ability in Ability]: (part: Part) => boolean } = {
  tools: ({ type }) => type === 'tool-call',
  images: ({ type }) => type === 'image',
}
