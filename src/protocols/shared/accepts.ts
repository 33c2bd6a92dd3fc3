/** Applies what a vendor takes (`core/accepts.ts`) to a request: to its body, and to what it needs. */
import type { Ability, Accepts, ReasoningMember } from '../../core/accepts.ts'
import type { ChatRequest, Part } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, list, text } from '../../core/json.ts'
import { mapList, withoutMember } from '../../core/json-edit.ts'
import type { Loss } from '../../core/protocol.ts'
import { detailsOf, isGatewayDetail, reasoningText } from './reasoning-members.ts'

/** Names a path in the body as dropped. */
type Lost = (path: string) => void

/** The body without what the vendor refuses; the same object where nothing changes. */
export const acceptedBody = (body: JsonObject, accepts: Accepts | undefined, lost: Lost): JsonObject => {
  const kept = accepts?.refuses ? withoutRefused(body, accepts.refuses, lost) : body
  const messages = list(kept.messages)
  // Of the other messages nothing is refused, unless the schema of messages is closed.
  const concerns = (message: JsonObject) => message.role === 'assistant' || accepts?.messages !== undefined
  const now = mapList(messages, (message, index) =>
    isObject(message) && concerns(message)
      ? acceptedMessage(message, accepts, (member) => lost(`messages[${index}].${member}`))
      : message,
  )
  return now === messages ? kept : { ...kept, messages: now }
}

const withoutRefused = (body: JsonObject, refuses: NonNullable<Accepts['refuses']>, lost: Lost): JsonObject => {
  const refused = Object.keys(refuses).filter((member) => body[member] !== undefined)
  for (const member of refused) if (!saysNothing(body[member], refuses[member])) lost(member)
  return withoutMember(body, ...refused)
}

/** The body without members that this vendor has refused before: of the body, of its messages and of its items. */
export const withoutRefusedPaths = (body: JsonObject, isRefused: (path: string) => boolean, lost: Lost): JsonObject => {
  const leave = (from: JsonObject, prefix: string, name: (member: string) => string): JsonObject => {
    const refused = Object.keys(from).filter((member) => from[member] !== undefined && isRefused(prefix + member))
    for (const member of refused) if (!saysNothing(from[member])) lost(name(member))
    return withoutMember(from, ...refused)
  }
  let kept = leave(body, '', (member) => member)
  for (const root of ['messages', 'input']) {
    const items = list(kept[root])
    const now = mapList(items, (item, index) =>
      isObject(item) ? leave(item, `${root}.`, (member) => `${root}[${index}].${member}`) : item,
    )
    if (now !== items) kept = { ...kept, [root]: now }
  }
  return kept
}

/** Null, the value that means the same as absence, or an empty list or object. */
const saysNothing = (value: Json | undefined, usual?: Json): boolean =>
  value === null ||
  value === undefined ||
  value === usual ||
  (isList(value) && value.length === 0) ||
  (isObject(value) && Object.keys(value).length === 0)

const acceptedMessage = (message: JsonObject, accepts: Accepts | undefined, lost: Lost): JsonObject => {
  const reasoned = message.role === 'assistant' ? withReasoning(message, accepts?.reasoning, lost) : message
  const known = accepts?.messages?.[text(message.role) ?? '']
  return known ? closed(reasoned, known, lost) : reasoned
}

/** A message of a closed schema. A refusal in a member of its own becomes text of the content. */
const closed = (message: JsonObject, known: readonly string[], lost: Lost): JsonObject => {
  const unknown = Object.keys(message).filter((member) => message[member] !== undefined && !known.includes(member))
  if (unknown.length === 0) return message
  const refusal = unknown.includes('refusal') ? text(message.refusal) : undefined
  for (const member of unknown)
    if (!saysNothing(message[member]) && !(member === 'refusal' && refusal !== undefined)) lost(member)
  const rest = withoutMember(message, ...unknown)
  return refusal ? { ...rest, content: withText(message.content, refusal) } : rest
}

const withText = (content: Json | undefined, more: string): Json => {
  if (isList(content)) return [...content, { type: 'text', text: more }]
  return typeof content === 'string' && content !== '' ? `${content}\n\n${more}` : more
}

const MEMBERS: readonly ReasoningMember[] = ['reasoning_content', 'reasoning', 'reasoning_details']

/**
 * The reasoning of an earlier turn in the members the vendor takes. Proofs that another format made and that were packed
 * here (`isOurDetail`) mean nothing to any vendor of chat completions.
 */
const withReasoning = (message: JsonObject, taken: readonly ReasoningMember[] | undefined, lost: Lost): JsonObject => {
  if (MEMBERS.every((member) => message[member] === undefined)) return message
  const open = withoutPacked(message, lost)
  if (!taken) return open
  const refused = MEMBERS.filter((member) => open[member] !== undefined && !taken.includes(member))
  if (refused.length === 0) return open
  const [wanted] = taken
  const thought = reasoningText(open)
  const kept = withoutMember(open, ...refused)
  if (wanted === undefined || wanted === 'reasoning_details') {
    for (const member of refused) if (!saysNothing(open[member], '')) lost(member)
    return kept
  }
  // The text moves; a proof in the details does not.
  if (refused.includes('reasoning_details') && detailsOf(open).length > 0) lost('reasoning_details')
  return thought === undefined || reasoningText(kept) !== undefined ? kept : { ...kept, [wanted]: thought }
}

const withoutPacked = (message: JsonObject, lost: Lost): JsonObject => {
  const details = detailsOf(message)
  const kept = mapList(details, (entry, index) => {
    if (!isGatewayDetail(entry)) return entry
    lost(`reasoning_details[${index}]`)
    return undefined
  })
  if (kept === details) return message
  return kept.length > 0 ? { ...message, reasoning_details: kept } : withoutMember(message, 'reasoning_details')
}

/** The client's paths that need an ability the vendor lacks. */
export const missingAbilities = ({ tools, messages }: ChatRequest, lacks: readonly Ability[]): readonly Loss[] =>
  lacks.flatMap((ability) => {
    const parts = messages.flatMap(({ content }) => content.filter((part) => NEEDS[ability](part)))
    const needed = ability === 'tools' ? [...tools, ...parts, ...messages.filter(({ role }) => role === 'tool')] : parts
    return needed.map(({ at }) => ({ at, unfit: true }))
  })

const NEEDS: { readonly [ability in Ability]: (part: Part) => boolean } = {
  tools: ({ type }) => type === 'tool-call',
  images: ({ type }) => type === 'image',
}
