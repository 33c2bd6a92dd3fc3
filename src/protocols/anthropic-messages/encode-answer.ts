import type { AnswerBlock, ChatAnswer } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { isTranscript, reportLost } from '../shared/output-media.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import { encodeCitation } from './citations.ts'
import { encodeFinish, encodeUsage } from './finish-and-usage.ts'
import { toolUseId } from './ids.ts'
import { sign } from './signatures.ts'

/** The head every answer of this format has, streamed or not. */
export const messageHead = (
  { id, model }: { readonly id?: string; readonly model?: string },
  context: AnswerContext,
): JsonObject => ({
  id: id?.startsWith('msg_') ? id : context.id('msg'),
  type: 'message',
  role: 'assistant',
  model: model ?? context.model,
})

/** A whole answer in this format. */
export const encodeAnswer = (answer: ChatAnswer, context: AnswerContext): JsonObject => {
  const content = answer.blocks.flatMap((block) => encodeBlock(block, context))
  const calledTools = content.some(({ type }) => type === 'tool_use')
  return {
    ...messageHead(answer, context),
    content,
    ...(answer.finish ? encodeFinish(ending(answer), calledTools) : { stop_reason: null, stop_sequence: null }),
    usage: encodeUsage(answer.usage),
  }
}

/** A refusal is told as one, though other formats end it like any answer. */
const ending = ({ finish, blocks }: ChatAnswer): NonNullable<ChatAnswer['finish']> => {
  const refused = blocks.some(({ type }) => type === 'refusal')
  return refused && finish?.kind === 'stop'
    ? { kind: 'refusal', raw: finish.raw }
    : (finish ?? { kind: 'stop', raw: null })
}

const encodeBlock = (block: AnswerBlock, context: AnswerContext): JsonObject[] => {
  const { text } = block
  switch (block.type) {
    case 'text': {
      const citations = (block.citations ?? []).flatMap(encodeCitation)
      // A client sends this back as history, where an empty text is refused.
      if (text === '' && citations.length === 0) return []
      return [{ type: 'text', text, ...(citations.length > 0 && { citations }) }]
    }
    // This format has no block for it; what the model said is shown, and the end says what it is.
    case 'refusal':
      return text === '' ? [] : [{ type: 'text', text }]
    case 'reasoning': {
      const { proof } = block
      if (proof?.redacted && proof.origin === 'anthropic-messages')
        return [{ type: 'redacted_thinking', data: proof.value }]
      if (text === '' && !proof) return []
      return [{ type: 'thinking', thinking: text, signature: proof ? sign(proof, block.summary === true) : '' }]
    }
    case 'tool-call':
      return [
        {
          type: 'tool_use',
          id: toolUseId(block.id),
          name: block.name,
          input: block.custom ? wrapInput(text) : parseArguments(text),
        },
      ]
    case 'foreign':
      if (block.protocol === 'anthropic-messages') return [block.raw]
      reportLost(block, context)
      // Of sound the words that were spoken can be carried.
      return isTranscript(block) && text !== '' ? [{ type: 'text', text }] : []
    default:
      throw new Error(`unknown block ${JSON.stringify(block satisfies never)}`)
  }
}
