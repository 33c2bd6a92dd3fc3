/**
 * Cache marks: the ends of prompt prefixes to cache. Anthropic calls them `cache_control`, OpenAI `prompt_cache_breakpoint`
 * (developers.openai.com, prompt caching, 2026-11-26; github.com/BerriAI/litellm/issues/32656). They mean the same.
 */
import type { CacheMark } from '../../core/cache-mark.ts'
import type { ChatRequest, Extra, Message, Part, Tool } from '../../core/chat.ts'
import { isObject, type Json, object } from '../../core/json.ts'
import type { Loss } from '../../core/protocol.ts'
import type { PortableRequest } from './foreign-parts.ts'

/** Anthropic: "A maximum of 4 blocks with cache_control may be provided" (github.com/Wei-Shaw/sub2api/issues/176). */
const MOST_MARKS = 4

const NO_LOSSES: readonly Loss[] = []

/** The request with its cache marks as the target has them, if it has any. Returns the same request if nothing changes. */
export const withCacheMarks = (request: ChatRequest, mark: CacheMark | undefined): PortableRequest => {
  if (!mark || !hasExtras(request)) return { request, losses: NO_LOSSES }
  const losses: Loss[] = []
  const converted =
    mark === 'cache_control' ? asCacheControl(request) : asBreakpoints(request, (path) => lose(losses, path))
  return mark === 'cache_control'
    ? { request: withinLimit(converted, (path) => lose(losses, path)), losses }
    : { request: converted, losses }
}

const lose = (losses: Loss[], path: string): void => void losses.push({ path, essential: false })

const hasExtras = ({ messages, tools }: ChatRequest): boolean =>
  tools.some(({ kind, ...tool }) => kind === 'function' && 'extras' in tool) ||
  messages.some(({ extras, content }) => extras !== undefined || content.some((part) => extrasOf(part) !== undefined))

/** The parts that can have a mark. */
type Markable = Part & { readonly type: 'text' | 'image' | 'file' }

const isMarkable = (part: Part): part is Markable =>
  part.type === 'text' || part.type === 'image' || part.type === 'file'

const extrasOf = (part: Part): readonly Extra[] | undefined => (isMarkable(part) ? part.extras : undefined)

const isControl = ({ name, value }: Extra): boolean =>
  name === 'cache_control' && isObject(value) && value.type === 'ephemeral'
const isBreakpoint = ({ name, value }: Extra): boolean => name === 'prompt_cache_breakpoint' && isObject(value)

/** Maps the extras of all tools, messages and parts. Unchanged ones are shared. */
const mapExtras = (
  request: ChatRequest,
  change: (extras: readonly Extra[]) => readonly Extra[],
): Pick<ChatRequest, 'tools' | 'messages'> => ({
  tools: request.tools.map(
    (tool): Tool => (tool.kind === 'function' && tool.extras ? { ...tool, extras: change(tool.extras) } : tool),
  ),
  messages: request.messages.map(
    (message): Message => ({
      ...message,
      ...(message.extras && { extras: change(message.extras) }),
      content: message.content.map((part) =>
        isMarkable(part) && part.extras ? withExtras(part, change(part.extras)) : part,
      ),
    }),
  ),
})

const withExtras = (part: Markable, extras: readonly Extra[]): Part => ({ ...part, extras })

// ── For Claude ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** OpenAI's lifetime is at least 30 minutes. Claude has 5 minutes and an hour, so an explicit `ttl` becomes an hour. */
const asCacheControl = (request: ChatRequest): ChatRequest => {
  const options = request.extras.find(({ name }) => name === 'prompt_cache_options')
  const { ttl, mode } = object(options?.value) ?? {}
  const value: Json = { type: 'ephemeral', ...(ttl !== undefined && ttl !== null && { ttl: '1h' }) }
  let found = false
  const converted = (extras: readonly Extra[]) =>
    extras.map((extra) => {
      if (!isBreakpoint(extra)) return extra
      found = true
      return { ...extra, name: 'cache_control', value }
    })
  const { tools, messages } = mapExtras(request, converted)
  if (!found) return request
  // Without marks of its own Claude caches nothing, so `explicit` needs no member there.
  const extras = mode === 'implicit' ? request.extras : request.extras.filter((extra) => extra !== options)
  return { ...request, tools, messages: messages.map(marksOfResult), extras }
}

/** A mark in a result belongs to the result, which may have one. */
const marksOfResult = (message: Message): Message => {
  if (message.role !== 'tool') return message
  const marks = message.content.flatMap((part) => (extrasOf(part) ?? []).filter(isControl))
  const last = marks.at(-1)
  if (!last || message.extras?.some(isControl)) return message
  const content = message.content.map((part) =>
    isMarkable(part) && part.extras?.some(isControl)
      ? withExtras(
          part,
          part.extras.filter((extra) => !isControl(extra)),
        )
      : part,
  )
  return { ...message, content, extras: [...(message.extras ?? []), last] }
}

/** Keeps the first mark, the end of the most stable prefix, and the last ones. The others are reported as lost. */
const withinLimit = (request: ChatRequest, dropped: (path: string) => void): ChatRequest => {
  const marks: Extra[] = []
  mapExtras(request, (extras) => {
    marks.push(...extras.filter(isControl))
    return extras
  })
  const most = MOST_MARKS - request.extras.filter(isControl).length
  if (marks.length <= most) return request
  const excess = new Set(marks.slice(1, marks.length - most + 1))
  for (const { at } of excess) dropped(at)
  return { ...request, ...mapExtras(request, (extras) => extras.filter((extra) => !excess.has(extra))) }
}

// ── For OpenAI ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Marks of tools and of the model's turns have no equivalent; they stay and are reported as lost. */
const asBreakpoints = (request: ChatRequest, dropped: (path: string) => void): ChatRequest => {
  const converted = (extra: Extra): Extra => {
    if (!isControl(extra)) return extra
    // The only lifetime is 30 minutes.
    if (object(extra.value)?.ttl === '1h') dropped(`${extra.at}.ttl`)
    return { ...extra, name: 'prompt_cache_breakpoint', value: { mode: 'explicit' } }
  }
  const messages = request.messages.map((message): Message => {
    if (message.role === 'assistant') return message
    const own = message.extras?.find(isControl)
    const last = message.content.findLastIndex(isMarkable)
    const content = message.content.map((part, index) => {
      if (!isMarkable(part)) return part
      const marks = own && index === last && !part.extras?.some(isControl) ? [own] : []
      const extras = [...(part.extras ?? []), ...marks]
      return extras.some(isControl) ? withExtras(part, extras.map(converted)) : part
    })
    if (!own || last === -1) return { ...message, content }
    return { ...message, content, extras: (message.extras ?? []).filter((extra) => extra !== own) }
  })
  return { ...request, messages }
}
