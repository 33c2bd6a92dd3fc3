/**
 * A compacted conversation: an opaque item for the client, which sends it back with the next request, and a message with
 * the summary for the upstream.
 */
import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'

const LABEL = 'hg1:compaction:'

/** Its types: that of the format, and those of Codex. */
const COMPACTIONS: ReadonlySet<Json | undefined> = new Set(['compaction', 'compaction_summary', 'context_compaction'])

/** The item that holds a summary. */
export const compactionItem = (id: string, summary: string): JsonObject => ({
  type: 'compaction',
  id,
  encrypted_content: LABEL + summary,
})

/** The message for one of the gateway's compaction items; undefined for any other item, also a provider's compaction. */
export const compactedMessage = (item: JsonObject): JsonObject | undefined => {
  const encrypted = COMPACTIONS.has(item.type) ? text(item.encrypted_content) : undefined
  if (!encrypted?.startsWith(LABEL)) return undefined
  const summary = `Summary of the conversation before this message:\n\n${encrypted.slice(LABEL.length)}`
  return { type: 'message', role: 'user', content: [{ type: 'input_text', text: summary }] }
}

/** The prompt for a summary. */
export const COMPACT = [
  'Summarize the conversation above for a reader who will continue it and sees nothing else of it.',
  'Keep every fact, decision, name, number, path and open task that may matter, and what was tried and failed.',
  'Write only the summary, in the language of the conversation.',
].join(' ')

/** The text of all messages in a response. */
export const outputText = (response: JsonObject): string =>
  list(response.output)
    .flatMap((item) => (object(item)?.type === 'message' ? list(object(item)?.content) : []))
    .flatMap((part) => text(object(part)?.text) ?? [])
    .join('')
