/**
 * Reasoning is sealed by whoever thought, and a conversation that has been answered by several cannot be told apart by
 * looking: the seals of one vendor's accounts, models and regions are alike. So it is sent as it came, and whoever does
 * not know a seal is asked again without any.
 */
import type { Message, Part } from '../core/chat.ts'
import type { Question } from './prepare.ts'

/**
 * The question without the seals in it, to be encoded again; null: it has no seals. Removed seals are reported like any other loss.
 * `isMeant`: only these seals.
 */
export const withoutProofs = (question: Question, isMeant: (seal: string) => boolean = () => true): Question | null => {
  const { request, anew } = question
  const isSealed = (part: Part): boolean =>
    part.type === 'reasoning' && part.proof !== undefined && isMeant(part.proof.value)
  const sealed = request.messages.flatMap(({ content }) => content.filter(isSealed).map(({ at }) => at))
  if (sealed.length === 0) return null
  const open = (part: Part): Part => (isSealed(part) ? unsealed(part) : part)
  return {
    ...question,
    anew: { without: [...(anew?.without ?? []), ...sealed] },
    request: {
      ...request,
      messages: request.messages.map((message): Message => ({ ...message, content: message.content.map(open) })),
    },
  }
}

/** Every seal in the question. */
export const sealsIn = ({ request }: Question): readonly string[] =>
  request.messages.flatMap(({ content }) =>
    content.flatMap((part) => (part.type === 'reasoning' && part.proof ? [part.proof.value] : [])),
  )

const unsealed = (part: Part): Part => {
  if (part.type !== 'reasoning') return part
  const { proof: _, ...rest } = part
  return rest
}
