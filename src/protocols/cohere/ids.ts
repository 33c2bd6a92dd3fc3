/** Tool names in this format. A replacement depends on the original name only, so no state is needed. */
import { digest } from '../shared/call-ids.ts'

const MAX_LENGTH = 64
const NAME = /^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/

/** "Tool names can only contain certain characters (A-Za-z0-9_) and can't begin with a digit" (Cohere, errors, 400). */
export const toolName = (name: string): string => {
  if (NAME.test(name)) return name
  const head = name.replace(/[^a-zA-Z0-9_]/g, '_').replace(/^(?=[0-9]|$)/, '_')
  return `${head.slice(0, MAX_LENGTH - 41)}_${digest(name)}`
}
