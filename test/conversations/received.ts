/** Finds the parts of a conversation in a request that a vendor received. */
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import type { Wire } from './answers.ts'
import { objects } from './rule.ts'

type Call = { readonly id: string; readonly given: Json | undefined }
type Seen = { readonly calls: readonly Call[]; readonly results: readonly Call[] }

const call = (id: Json | undefined, given: Json | undefined): Call => ({ id: text(id) ?? '', given })
const NONE: Seen = { calls: [], results: [] }

/** Calls and results in chat completions and in formats derived from it. */
const ofChat = ({ messages }: JsonObject): Seen => ({
  calls: objects(messages).flatMap(({ tool_calls: calls }) =>
    objects(calls).map(({ id, function: given }) => call(id, object(given)?.arguments)),
  ),
  results: objects(messages).flatMap(({ role, tool_call_id: id, content }) =>
    role === 'tool' ? [call(id, content)] : [],
  ),
})

const blocks = (turns: Json | undefined, member: string): readonly JsonObject[] =>
  objects(turns).flatMap((turn) => objects(turn[member]))

const SEEN: { readonly [wire in Wire]: (body: JsonObject) => Seen } = {
  chat: ofChat,
  mistral: ofChat,
  cohere: ofChat,
  // Ollama's results may have no id.
  ollama: (body) => {
    const { calls, results } = ofChat(body)
    return results.some(({ id }) => id === '') ? byOrder(calls, results) : { calls, results }
  },
  responses: ({ input }) => ({
    calls: objects(input).flatMap((item) =>
      item.type === 'function_call' ? [call(item.call_id, item.arguments)] : [],
    ),
    results: objects(input).flatMap((item) =>
      item.type === 'function_call_output' ? [call(item.call_id, item.output)] : [],
    ),
  }),
  messages: ({ messages }) => ({
    calls: blocks(messages, 'content').flatMap((block) =>
      block.type === 'tool_use' ? [call(block.id, block.input)] : [],
    ),
    results: blocks(messages, 'content').flatMap((block) =>
      block.type === 'tool_result' ? [call(block.tool_use_id, block.content)] : [],
    ),
  }),
  converse: ({ messages }) =>
    blocks(messages, 'content').reduce((seen: Seen, { toolUse, toolResult }) => {
      const [use, result] = [object(toolUse), object(toolResult)]
      return {
        calls: use ? [...seen.calls, call(use.toolUseId, use.input)] : seen.calls,
        results: result ? [...seen.results, call(result.toolUseId, result.content)] : seen.results,
      }
    }, NONE),
  // Results correspond to calls by their order.
  gemini: ({ contents }) => {
    const parts = blocks(contents, 'parts')
    const all = (member: string, given: string) =>
      parts
        .map((part) => object(part[member]))
        .filter(isObject)
        .map((one) => call('', one[given]))
    return byOrder(all('functionCall', 'args'), all('functionResponse', 'response'))
  },
}

const byOrder = (calls: readonly Call[], results: readonly Call[]): Seen => {
  const numbered = (all: readonly Call[]) => all.map(({ given }, at) => ({ id: String(at), given }))
  return { calls: numbered(calls), results: numbered(results) }
}

const markIn = (pattern: RegExp, given: Json | undefined): string =>
  pattern.exec(JSON.stringify(given ?? ''))?.[0] ?? ''

/** Calls and their results as `argument-1=result-1`. */
export const pairsAt = (wire: Wire, body: JsonObject): readonly string[] => {
  const { calls, results } = SEEN[wire](body)
  return calls.map(({ id, given }) => {
    const result = results.find((one) => one.id === id)
    return `${markIn(/argument-\w+/, given)}=${markIn(/result-\w+/, result?.given)}`
  })
}

/** The paths of all texts in a body that contain a mark, in the gateway's notation. */
export const pathsOf = (value: Json | undefined, mark: string, path = ''): readonly string[] => {
  if (typeof value === 'string') return value.includes(mark) ? [path] : []
  if (Array.isArray(value)) return list(value).flatMap((item, at) => pathsOf(item, mark, `${path}[${at}]`))
  return isObject(value)
    ? Object.entries(value).flatMap(([name, item]) => pathsOf(item, mark, path === '' ? name : `${path}.${name}`))
    : []
}
