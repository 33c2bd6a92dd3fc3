/**
 * Removes reasoning signatures from a request. They are specific to a provider, account, model and region, and cannot be
 * recognised by inspection. So they are sent as received, and removed only for a target that has rejected them.
 */
import type { Message, Part } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { type Json, list, object, readJson } from '../../core/json.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'

/**
 * The request without its signatures, to be encoded again. Removed signatures are reported as dropped.
 * `shouldRemove`: limits the removal to some signatures. Null: there is none to remove.
 */
export const stripSignatures = (
  inbound: InboundRequest,
  shouldRemove: (signature: string) => boolean = () => true,
): InboundRequest | null => {
  const { request, reencode } = inbound
  const isAffected = (part: Part): boolean =>
    part.type === 'reasoning' && part.signature !== undefined && shouldRemove(part.signature.value)
  const paths = request.messages.flatMap(({ content }) => content.filter(isAffected).map(({ at }) => at))
  if (paths.length === 0) return null
  const strip = (part: Part): Part => (isAffected(part) ? unsigned(part) : part)
  return {
    ...inbound,
    reencode: { without: [...(reencode?.without ?? []), ...paths] },
    request: {
      ...request,
      messages: request.messages.map((message): Message => ({ ...message, content: message.content.map(strip) })),
    },
  }
}

/** All signatures in the request. */
export const signaturesIn = ({ request }: InboundRequest): readonly string[] =>
  request.messages.flatMap(({ content }) =>
    content.flatMap((part) => (part.type === 'reasoning' && part.signature ? [part.signature.value] : [])),
  )

/** Quoted by its beginning and, mostly, its end: "The encrypted content gAAA...Rg== could not be verified." */
const QUOTE = /encrypted content (\S{1,40}?)\.\.\.(\S{0,40}) could not/i
/** An item by its id: "Item with id 'rs_1' not found." */
const ITEM = /^item with id '([^']{1,200})' not found/i
/** The path of a message or item, or of a block in a message: `messages.1.content.0`, `input[2]`. */
const PATH = /\b(messages|input|contents)[.[](\d{1,6})\]?(?:\.(content|parts)[.[](\d{1,6}))?/

/** Characters of the longest body that is parsed again to resolve a path or item id. */
const LONGEST_PARSED = 1_048_576

/**
 * The signatures that a provider's error identifies, by a path in the sent body, an item's id or part of their text.
 * Empty: it identifies none.
 */
export const signaturesNamed = (
  { param, upstream }: Failure,
  body: string,
  signatures: readonly string[],
): readonly string[] => {
  const message = upstream?.message ?? ''
  const [, start, end] = QUOTE.exec(message) ?? []
  if (start !== undefined && end !== undefined)
    return signatures.filter((signature) => signature.startsWith(start) && signature.endsWith(end))
  const [, id] = ITEM.exec(message) ?? []
  const [, outerList, index, innerList, innerIndex] = PATH.exec(message) ?? PATH.exec(param ?? '') ?? []
  if ((id === undefined && outerList === undefined) || body.length > LONGEST_PARSED) return []
  const sent = readJson(body)
  const outer =
    id === undefined ? entry(sent, outerList, index) : listAt(sent, 'input').find((item) => object(item)?.id === id)
  const named = JSON.stringify((innerList === undefined ? outer : entry(outer, innerList, innerIndex)) ?? null)
  return signatures.filter((signature) => named.includes(JSON.stringify(signature)))
}

const listAt = (value: Json | undefined, name: string): readonly Json[] => list(object(value)?.[name])
const entry = (value: Json | undefined, name = '', index = ''): Json | undefined => listAt(value, name)[Number(index)]

const unsigned = (part: Part): Part => {
  if (part.type !== 'reasoning') return part
  const { signature: _, ...rest } = part
  return rest
}
