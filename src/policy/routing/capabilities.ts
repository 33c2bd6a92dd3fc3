/**
 * Whether a model can do what is asked, by the catalogue. It is a doubt and not a refusal: catalogues are late and have
 * mistakes, so a model in doubt is asked when nobody without doubt is left, and then it says itself what it cannot do.
 */
import type { ChatRequest, Part } from '../../core/chat.ts'
import type { ModelFacts } from '../../core/config.ts'
import { estimateTokens } from './estimate-tokens.ts'

/** What is in doubt, by the client's own path, and the capability or limit that stands against it. */
export type Doubt = { readonly at: string; readonly lacks: string }

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

/** What the request asks for, one entry a capability, by the first place that asks. */
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

/** The estimate is within some 40 %; only what is too long even so is in doubt. */
const LOWER_BOUND = 0.6

/** `length`: characters of the body, of which none is more than a token or so. */
const tooLong = (request: ChatRequest, window: number, length: number): boolean =>
  length > window && estimateTokens(request) * LOWER_BOUND > window

/** Where the bulk of a request lies. */
const inputOf = ({ messages }: ChatRequest): string => messages.at(-1)?.at ?? 'messages'
