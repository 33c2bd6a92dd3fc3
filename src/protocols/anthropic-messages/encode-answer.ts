import type { AnswerBlock, ChatAnswer } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { encodeSignature } from '../client-parts/thinking-signatures.ts'
import { isTranscript, reportLost, reportLostCitation } from '../shared/output-media.ts'
import { issuedSignature } from '../shared/reasoning-members.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import { encodeCitation } from './citations.ts'
import { encodeFinish, encodeUsage } from './finish-and-usage.ts'
import { toolUseId } from './ids.ts'

/** The first members of every answer, complete or streamed. The upstream's id is kept if it has this format. */
export const messageHead = (
  { id, model }: { readonly id?: string; readonly model?: string },
  context: AnswerContext,
): JsonObject => ({
  id: id?.startsWith('msg_') ? id : context.id('msg'),
  type: 'message',
  role: 'assistant',
  model: model ?? context.model,
})

/** Encodes a complete answer. */
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

/** Other formats end a refusal with `stop`; this one has its own stop reason. */
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
      if (citations.length < (block.citations ?? []).length) reportLostCitation(context)
      // Clients send this back as history, where an empty text is rejected.
      if (text === '' && citations.length === 0) return []
      return [{ type: 'text', text, ...(citations.length > 0 && { citations }) }]
    }
    // This format has no refusal block: the refusal is text, and the stop reason marks it.
    case 'refusal':
      return text === '' ? [] : [{ type: 'text', text }]
    case 'reasoning': {
      const { signature } = block
      if (signature?.redacted && signature.origin === 'anthropic-messages')
        return [{ type: 'redacted_thinking', data: signature.value }]
      if (text === '' && !signature) return []
      return [
        {
          type: 'thinking',
          thinking: text,
          signature: signature ? encodeSignature(issuedSignature(signature, context), block.summary === true) : '',
        },
      ]
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
      // Audio output is encoded as its transcript only.
      return isTranscript(block) && text !== '' ? [{ type: 'text', text }] : []
    default:
      throw new Error(`unknown block ${JSON.stringify(block satisfies never)}`)
  }
}
