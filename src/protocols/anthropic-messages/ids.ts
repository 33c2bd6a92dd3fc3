/**
 * Ids and names this format does not take are replaced by ones it does. Each replacement is a function of the original
 * alone: a call and its result get the same one, in this turn and in every later one, without any state.
 */
import { digest } from '../shared/call-ids.ts'

const ID = /^[a-zA-Z0-9_-]+$/
const NAME = /^[a-zA-Z0-9_-]{1,128}$/
const LONGEST_NAME = 128

/** The id of a call as this format takes it: letters, digits, `_` and `-`, at least one. */
export const toolUseId = (id: string): string => (ID.test(id) ? id : `call_${digest(id)}`)

/** The name of a tool as this format takes it: letters, digits, `_` and `-`, at most 128. */
export const toolName = (name: string): string => {
  if (NAME.test(name)) return name
  const head = name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, LONGEST_NAME - 41)
  return `${head}_${digest(name)}`
}
