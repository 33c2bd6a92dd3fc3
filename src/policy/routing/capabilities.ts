/**
 * Whether a model has the abilities that a request needs, by the catalogue. Catalogues are late and contain errors, so a
 * missing ability is a doubt: the model is tried after those without doubt, and its own error decides.
 */
import type { ChatRequest, Part } from '../../core/chat.ts'
import type { ModelFacts } from '../../core/config.ts'
import { estimateTokens } from './estimate-tokens.ts'

/** A capability or limit that the model lacks according to the catalogue. `at`: the client's path to what needs it. */
export type Doubt = { readonly at: string; readonly lacks: string }

/**
 * The doubts about a model for a request; empty if the model is unknown. `length`: characters of the body, an upper bound
 * of its tokens that saves most estimates.
 */
export const doubts = (request: ChatRequest, facts: ModelFacts | undefined, length: number): readonly Doubt[] => {
  if (!facts) return []
  const { capabilities, maxOutputTokens, contextWindow } = facts
  const wanted = capabilities ? needs(request).filter(({ lacks }) => !capabilities.includes(lacks)) : []
  const limit = request.settings.maxOutputTokens
  const long = limit && maxOutputTokens !== undefined && limit.value > maxOutputTokens
  return [
    ...wanted,
    ...(long ? [{ at: limit.at, lacks: 'max_output_tokens' }] : []),
    ...(contextWindow !== undefined && tooLong(request, contextWindow, length)
      ? [{ at: inputOf(request), lacks: 'context_window' }]
      : []),
  ]
}

/** The capabilities the request needs, each with the first path that needs it. */
const needs = ({ tools, messages, settings }: ChatRequest): readonly Doubt[] => {
  const found = new Map<string, string>()
  const note = (lacks: string, at: string) => {
    if (!found.has(lacks)) found.set(lacks, at)
  }
  const [tool] = tools
  if (tool) note('tools', tool.at)
  if (settings.format?.value.kind === 'schema') note('structured_output', settings.format.at)
  for (const { content } of messages)
    for (const part of content) {
      const lacks = NEEDS[part.type]
      if (lacks) note(lacks, part.at)
    }
  return [...found].map(([lacks, at]) => ({ lacks, at }))
}

const NEEDS: { readonly [type in Part['type']]?: string } = {
  image: 'vision',
  audio: 'audio_input',
  file: 'file_input',
}

/** The estimate has an error of up to 40 %: a request is in doubt only if this share of it exceeds the window. */
const LOWER_BOUND = 0.6

const tooLong = (request: ChatRequest, window: number, length: number): boolean =>
  length > window && estimateTokens(request) * LOWER_BOUND > window

/** The path of the last message, for a doubt about the whole input. */
const inputOf = ({ messages }: ChatRequest): string => messages.at(-1)?.at ?? 'messages'
