/** Names this format does not take are replaced by ones it does: a function of the original alone, so it needs no state. */
import { digest } from '../shared/call-ids.ts'

const LONGEST = 128
const NAME = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/

/** The name of a tool as this format takes it: letters, digits, `_`, `.`, `:` and `-`, a letter or `_` first, at most 128. */
export const toolName = (name: string): string => {
  if (NAME.test(name)) return name
  const head = name.replace(/[^a-zA-Z0-9_.:-]/g, '_').replace(/^(?![a-zA-Z_])/, '_')
  return `${head.slice(0, LONGEST - 41)}_${digest(name)}`
}
