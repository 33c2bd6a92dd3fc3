/**
 * What stands for a conversation that was made shorter here: an opaque item for the client, which sends it back in front
 * of what comes next, and a message with the summary for whoever is asked then.
 */
import { type JsonObject, list, object, text } from '../../core/json.ts'

const LABEL = 'hg1:compaction:'

export const compactionItem = (id: string, summary: string): JsonObject => ({
  type: 'compaction',
  id,
  encrypted_content: LABEL + summary,
})

/** The message that an item of ours stands for; undefined for every other item, a provider's own compaction too. */
export const compactedMessage = (item: JsonObject): JsonObject | undefined => {
  const sealed = item.type === 'compaction' ? text(item.encrypted_content) : undefined
  if (!sealed?.startsWith(LABEL)) return undefined
  const words = `Summary of the conversation before this message:\n\n${sealed.slice(LABEL.length)}`
  return { type: 'message', role: 'user', content: [{ type: 'input_text', text: words }] }
}

/** What a model is asked in order to get one. */
export const COMPACT = [
  'Summarize the conversation above for somebody who has to go on with it and will see nothing else of it.',
  'Keep every fact, decision, name, number, path and open task that may matter, and what was tried and failed.',
  'Write only the summary, in the language of the conversation.',
].join(' ')

/** The text of a response's messages. */
export const outputText = (response: JsonObject): string =>
  list(response.output)
    .flatMap((item) => (object(item)?.type === 'message' ? list(object(item)?.content) : []))
    .flatMap((part) => text(object(part)?.text) ?? [])
    .join('')
