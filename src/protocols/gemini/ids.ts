/** Tool names in this format. A replacement depends on the original name only, so no state is needed. */
import { digest } from '../shared/call-ids.ts'

const MAX_LENGTH = 128
const NAME = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/

/** A valid tool name: letters, digits, `_`, `.`, `:` and `-`, a letter or `_` first, at most 128. */
export const toolName = (name: string): string => {
  if (NAME.test(name)) return name
  const head = name.replace(/[^a-zA-Z0-9_.:-]/g, '_').replace(/^(?![a-zA-Z_])/, '_')
  return `${head.slice(0, MAX_LENGTH - 41)}_${digest(name)}`
}
