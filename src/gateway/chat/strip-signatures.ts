/**
 * Reasoning is sealed by whoever thought, and a conversation that has been answered by several cannot be told apart by
 * looking: the seals of one vendor's accounts, models and regions are alike. So it is sent as it came, and whoever does
 * not know a seal is asked again without any.
 */
import type { Message, Part } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { type Json, list, object, readJson } from '../../core/json.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'

/**
 * The question without the seals in it, to be encoded again; null: it has no seals. Removed seals are reported like any other loss.
 * `isMeant`: only these seals.
 */
export const stripSignatures = (
  question: InboundRequest,
  isMeant: (seal: string) => boolean = () => true,
): InboundRequest | null => {
  const { request, reencode: anew } = question
  const isSealed = (part: Part): boolean =>
    part.type === 'reasoning' && part.proof !== undefined && isMeant(part.proof.value)
  const sealed = request.messages.flatMap(({ content }) => content.filter(isSealed).map(({ at }) => at))
  if (sealed.length === 0) return null
  const open = (part: Part): Part => (isSealed(part) ? unsealed(part) : part)
  return {
    ...question,
    reencode: { without: [...(anew?.without ?? []), ...sealed] },
    request: {
      ...request,
      messages: request.messages.map((message): Message => ({ ...message, content: message.content.map(open) })),
    },
  }
}

/** Every seal in the question. */
export const signaturesIn = ({ request }: InboundRequest): readonly string[] =>
  request.messages.flatMap(({ content }) =>
    content.flatMap((part) => (part.type === 'reasoning' && part.proof ? [part.proof.value] : [])),
  )

/** Quoted by its beginning and, mostly, its end: "The encrypted content gAAA...Rg== could not be verified." */
const QUOTE = /encrypted content (\S{1,40}?)\.\.\.(\S{0,40}) could not/i
/** An item by its id: "Item with id 'rs_1' not found." */
const ITEM = /^item with id '([^']{1,200})' not found/i
/** The place of a message or item, or of a block in a message: `messages.1.content.0`, `input[2]`. */
const PLACE = /\b(messages|input|contents)[.[](\d{1,6})\]?(?:\.(content|parts)[.[](\d{1,6}))?/

/** Longer bodies are not parsed again to find what a refusal names. */
const LONGEST_PARSED = 1_048_576

/** The seals that a refusal names, by a place in the body that was sent, an item's id or a part of their text. Empty: none. */
export const sealsNamed = ({ param, upstream }: Failure, body: string, seals: readonly string[]): readonly string[] => {
  const words = upstream?.message ?? ''
  const [, head, tail] = QUOTE.exec(words) ?? []
  if (head !== undefined && tail !== undefined)
    return seals.filter((seal) => seal.startsWith(head) && seal.endsWith(tail))
  const [, id] = ITEM.exec(words) ?? []
  const [, outerList, index, inner, innerIndex] = PLACE.exec(words) ?? PLACE.exec(param ?? '') ?? []
  if ((id === undefined && outerList === undefined) || body.length > LONGEST_PARSED) return []
  const sent = readJson(body)
  const outer =
    id === undefined ? entry(sent, outerList, index) : listAt(sent, 'input').find((item) => object(item)?.id === id)
  const place = JSON.stringify((inner === undefined ? outer : entry(outer, inner, innerIndex)) ?? null)
  return seals.filter((seal) => place.includes(JSON.stringify(seal)))
}

const listAt = (value: Json | undefined, name: string): readonly Json[] => list(object(value)?.[name])
const entry = (value: Json | undefined, name = '', index = ''): Json | undefined => listAt(value, name)[Number(index)]

const unsealed = (part: Part): Part => {
  if (part.type !== 'reasoning') return part
  const { proof: _, ...rest } = part
  return rest
}
