/** Tools that a provider runs itself, from the call to the result: a model can answer without them, if less well. */
import { isObject, type Json, text } from '../../core/json.ts'

/** Their types in the styles clients speak, with the date some of them end in: `web_search_2025_08_26`, `web_fetch_20250910`. */
const HOSTED =
  /^(?:openrouter:)?(?:web_search(?:_preview)?|web_fetch|file_search|code_interpreter|code_execution|image_generation|mcp|mcp_toolset|tool_search|tool_search_tool_(?:regex|bm25))(?:_\d{4}_?\d\d_?\d\d)?$/

export const isHostedTool = ({ type }: { readonly type?: Json | undefined }): boolean => HOSTED.test(text(type) ?? '')

/** Whether the model may call what it likes, nothing included, by `tool_choice` of any style. */
export const isFreeChoice = (choice: Json | undefined): boolean => {
  if (choice === undefined || choice === null || choice === 'auto' || choice === 'none') return true
  if (!isObject(choice)) return false
  if (choice.type === 'auto' || choice.type === 'none') return true
  const allowed = isObject(choice.allowed_tools) ? choice.allowed_tools : choice
  return choice.type === 'allowed_tools' && allowed.mode !== 'required'
}
