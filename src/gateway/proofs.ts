/**
 * Reasoning is sealed by whoever thought, and a conversation that has been answered by several cannot be told apart by
 * looking: the seals of one vendor's accounts, models and regions are alike. So it is sent as it came, and whoever does
 * not know a seal is asked again without any.
 */
import type { Message, Part } from '../core/chat.ts'
import type { Question } from './prepare.ts'

/** The question without the seals in it, to be written anew; null: there are none. What is lost by it is named like any loss. */
export const withoutProofs = (question: Question): Question | null => {
  const { request, anew } = question
  const sealed = request.messages.flatMap(({ content }) => content.filter(isSealed).map(({ at }) => at))
  if (sealed.length === 0) return null
  return {
    ...question,
    anew: { without: [...(anew?.without ?? []), ...sealed] },
    request: { ...request, messages: request.messages.map(unsealed) },
  }
}

const isSealed = (part: Part): boolean => part.type === 'reasoning' && part.proof !== undefined

const unsealed = (message: Message): Message => ({ ...message, content: message.content.map(open) })

const open = (part: Part): Part => {
  if (part.type !== 'reasoning') return part
  const { proof: _, ...rest } = part
  return rest
}
