import type { Json } from '../../core/json.ts'

/** This format cannot mark a result as an error, so its text says it. */
export const markErrorResult = (content: Json, isError: boolean | undefined): Json => {
  if (!isError) return content
  if (typeof content === 'string') return /error/i.test(content.slice(0, 40)) ? content : `Error: ${content}`
  return [{ type: 'text', text: 'Error:' }, ...(Array.isArray(content) ? content : [])]
}
