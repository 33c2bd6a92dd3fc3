/**
 * Cache points for requests that have none, in the places of `anthropic-messages/breakpoints.ts`, as far as the family of the model has
 * them (docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html, 2026-11-28).
 */
import { isObject, type Json, type JsonObject, list, object } from '../../core/json.ts'
import { placesOf } from '../shared/breakpoints.ts'
import { isCacheable } from './encode-messages.ts'
import { familyOf } from './family.ts'

const POINT: JsonObject = { cachePoint: { type: 'default' } }

/** The body with cache points, at most three. Returns the same object if it has points of its own, or no place for one. */
export const withBreakpoints = (body: JsonObject, model: string): JsonObject => {
  const { caches } = familyOf(model)
  const config = object(body.toolConfig)
  const [system, tools, messages] = [list(body.system), list(config?.tools), list(body.messages)]
  if (!caches.messages || [...system, ...tools, ...messages.flatMap(contentOf)].some(isPoint)) return body
  const places = placesOf(
    messages.map((message) => ({
      isModel: isObject(message) && message.role === 'assistant',
      blocks: contentOf(message).map((block) => isObject(block) && isCacheable(block)),
    })),
  )
  const changed = messages.map((message, at) => {
    const own = places.filter((place) => place.message === at).map(({ block }) => block)
    if (own.length === 0 || !isObject(message)) return message
    return {
      ...message,
      content: contentOf(message).flatMap((block, index) => (own.includes(index) ? [block, POINT] : [block])),
    }
  })
  const hasTools = system.length === 0 && tools.length > 0 && caches.tools
  return {
    ...body,
    ...(system.length > 0 && { system: [...system, POINT] }),
    ...(hasTools && { toolConfig: { ...config, tools: [...tools, POINT] } }),
    ...(places.length > 0 && { messages: changed }),
  }
}

const isPoint = (block: Json): boolean => isObject(block) && block.cachePoint !== undefined

const contentOf = (message: Json): readonly Json[] => (isObject(message) ? list(message.content) : [])
