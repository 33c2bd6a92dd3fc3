import { validToolName } from '../shared/tool-names.ts'

/** "Tool names can only contain certain characters (A-Za-z0-9_) and can't begin with a digit" (Cohere, errors, 400). */
export const toolName = validToolName({
  valid: /^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/,
  replaced: /[^a-zA-Z0-9_]|^(?=[0-9]|$)/g,
  maxLength: 64,
})
