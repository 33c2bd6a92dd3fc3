import { validToolName } from '../shared/tool-names.ts'

/** A valid tool name: letters, digits, `_`, `.`, `:` and `-`, a letter or `_` first, at most 128. */
export const toolName = validToolName({
  valid: /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/,
  replaced: /[^a-zA-Z0-9_.:-]|^(?![a-zA-Z_])/g,
  maxLength: 128,
})
