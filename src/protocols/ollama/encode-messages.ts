/** Encodes messages: plain text with images beside it, and calls with arguments as objects. */
import type { Message, Part } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import { type Losses, loseExtras } from '../shared/losses.ts'
import { inlineDataUrl, standardBase64, textOfFile } from '../shared/media.ts'
import { parseArguments, wrapInput } from '../shared/tool-arguments.ts'
import { markErrorResult } from '../shared/tool-results.ts'

/** Encodes the messages of a request. */
export const encodeMessages = (messages: readonly Message[], losses: Losses): JsonObject[] => {
  /** Tool names by call ID: a result needs the name, which only the call has. */
  const toolNames = new Map<string, string>()
  return messages.flatMap((message) => {
    loseExtras(message.extras, losses)
    switch (message.role) {
      case 'system':
        return [{ role: 'system', content: encodeContent(message.content, losses).content }]
      case 'user':
        return [{ role: 'user', ...encodeContent(message.content, losses) }]
      case 'assistant':
        for (const part of message.content) if (part.type === 'tool-call') toolNames.set(part.id, part.name)
        return encodeTurn(message.content, losses)
      case 'tool': {
        const { content, images } = encodeContent(message.content, losses)
        const name = toolNames.get(message.callId)
        return [
          {
            role: 'tool',
            content: markErrorResult(content, message.isError),
            ...(images && { images }),
            ...(name !== undefined && { tool_name: name }),
            tool_call_id: message.callId,
          },
        ]
      }
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  })
}

type TextAndImages = { readonly content: string; readonly images?: readonly string[] }

const encodeContent = (parts: readonly Part[], losses: Losses): TextAndImages => {
  const texts: string[] = []
  const images: string[] = []
  for (const part of parts)
    switch (part.type) {
      case 'text':
        loseExtras(part.extras, losses)
        texts.push(part.text)
        break
      case 'refusal':
        texts.push(part.text)
        break
      case 'image': {
        loseExtras(part.extras, losses)
        // Ollama does not fetch URLs.
        const source = inlineDataUrl(part.source)
        if (source.kind !== 'data') losses.unfit(part.at)
        else images.push(standardBase64(source.data))
        if (part.detail !== undefined && part.detail !== 'auto') losses.loseMember(part, 'detail')
        break
      }
      case 'file': {
        loseExtras(part.extras, losses)
        const content = textOfFile(part)
        if (content === undefined) losses.unfit(part.at)
        else texts.push(content)
        if (part.filename) losses.loseMember(part, 'filename')
        break
      }
      case 'reasoning':
        losses.lose(part.at)
        break
      case 'audio':
      case 'tool-call':
      case 'foreign':
        losses.unfit(part.at)
        break
      default:
        throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
    }
  return { content: texts.join('\n'), ...(images.length > 0 && { images }) }
}

// ── Assistant messages ───────────────────────────────────────────────────────────────────────────────────────────

const encodeTurn = (parts: readonly Part[], losses: Losses): JsonObject[] => {
  const texts: string[] = []
  const thoughts: string[] = []
  const calls: JsonObject[] = []
  for (const part of parts)
    switch (part.type) {
      case 'text':
        loseExtras(part.extras, losses)
        texts.push(part.text)
        break
      case 'refusal':
        texts.push(part.text)
        break
      case 'reasoning':
        // This format has no signatures: only reasoning with text is sent.
        if (part.text === '') losses.lose(part.at)
        else thoughts.push(part.text)
        break
      case 'tool-call':
        calls.push({
          id: part.id,
          function: {
            name: part.name,
            arguments: part.custom ? wrapInput(part.arguments) : parseArguments(part.arguments),
          },
        })
        break
      case 'image':
      case 'file':
      case 'audio':
      case 'foreign':
        losses.unfit(part.at)
        break
      default:
        throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
    }
  if (texts.length + thoughts.length + calls.length === 0) return []
  return [
    {
      role: 'assistant',
      content: texts.join(''),
      ...(thoughts.length > 0 && { thinking: thoughts.join('\n\n') }),
      ...(calls.length > 0 && { tool_calls: calls }),
    },
  ]
}
