/** Tools that the provider runs itself. A model can answer without them, with less quality. */
import { isObject, type Json, text } from '../../core/json.ts'

/** Tool types of all client formats, with an optional date: `web_search_2025_08_26`, `web_fetch_20250910`. */
const HOSTED =
  /^(?:openrouter:)?(?:web_search(?:_preview)?|web_fetch|file_search|code_interpreter|code_execution|image_generation|mcp|mcp_toolset|tool_search|tool_search_tool_(?:regex|bm25))(?:_\d{4}_?\d\d_?\d\d)?$/

/** Whether a tool of any client format is run by the provider. */
export const isHostedTool = ({ type }: { readonly type?: Json | undefined }): boolean => HOSTED.test(text(type) ?? '')

/** Whether `tool_choice`, in any client format, lets the model decide, including no call. */
export const isFreeChoice = (choice: Json | undefined): boolean => {
  if (choice === undefined || choice === null || choice === 'auto' || choice === 'none') return true
  if (!isObject(choice)) return false
  if (choice.type === 'auto' || choice.type === 'none') return true
  const allowed = isObject(choice.allowed_tools) ? choice.allowed_tools : choice
  return choice.type === 'allowed_tools' && allowed.mode !== 'required'
}

/** The tool choices of the messages format, by the type of their object, for the other formats. */
export const MESSAGES_CHOICES: ReadonlyMap<Json | undefined, 'auto' | 'none' | 'required'> = new Map([
  ['auto', 'auto'],
  ['none', 'none'],
  ['any', 'required'],
  ['required', 'required'],
])
