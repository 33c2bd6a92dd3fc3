import type { Json } from '../../core/json.ts'

/** Marks a tool result as an error in its text, for formats without an error flag. */
export const markErrorResult = (content: Json, isError: boolean | undefined): Json => {
  if (!isError) return content
  if (typeof content === 'string') return /error/i.test(content.slice(0, 40)) ? content : `Error: ${content}`
  return [{ type: 'text', text: 'Error:' }, ...(Array.isArray(content) ? content : [])]
}
