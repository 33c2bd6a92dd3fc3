/** The items of a responses-style conversation: input messages, tool calls and results, reasoning. */

import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, object, parseJson, text } from '../../core/json.ts'
import { readLarge } from '../../core/large-json.ts'
import { inTurns, type TurnScheduler as LoopTurn, PIECE } from '../../core/steps.ts'
import type { StoredResponse } from '../../core/stored-response.ts'

/** The items of a request's `input`; a string is one user message. */
export const itemsOf = (input: Json | undefined): readonly JsonObject[] =>
  typeof input === 'string'
    ? [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] }]
    : list(input).filter(isObject)

/** Input items as they are listed later: each with an id, messages with their type and status. */
export const withIds = (
  items: readonly JsonObject[],
  randomLetters: (length: number) => string,
): readonly JsonObject[] =>
  items.map((item) => {
    const type = text(item.type) ?? (item.role === undefined ? 'item_reference' : 'message')
    return {
      ...item,
      type,
      id: text(item.id) ?? `${PREFIXES.get(type) ?? 'item'}_${randomLetters(24)}`,
      ...(type === 'message' && {
        status: text(item.status) ?? 'completed',
        ...(typeof item.content === 'string' && {
          content: [{ type: item.role === 'assistant' ? 'output_text' : 'input_text', text: item.content }],
        }),
      }),
    }
  })

const PREFIXES: ReadonlyMap<string, string> = new Map([
  ['message', 'msg'],
  ['function_call', 'fc'],
  ['function_call_output', 'fco'],
  ['custom_tool_call', 'ctc'],
  ['custom_tool_call_output', 'cto'],
  ['reasoning', 'rs'],
  ['compaction', 'cmp'],
])

/** How stored items are read. */
export type ItemReading = {
  readonly loopTurn: LoopTurn
  /** Records the provider instance that issued encrypted reasoning. */
  readonly noteIssuer: (encrypted: string, instance: string) => void
}

/**
 * The input and output items of a stored turn. Large turns are parsed in several turns of the event loop. The issuer of the
 * reasoning in its output is noted, so that no other provider receives it.
 */
export const itemsIn = async (
  turn: StoredResponse,
  { loopTurn, noteIssuer }: ItemReading,
): Promise<readonly JsonObject[]> => {
  const input = await parseStored(turn.input, loopTurn)
  const response = await parseStored(turn.response, loopTurn)
  const output = list(object(response)?.output).filter(isObject)
  for (const { type, encrypted_content } of turn.maker ? output : []) {
    const encrypted = type === 'reasoning' ? text(encrypted_content) : undefined
    if (encrypted && turn.maker) noteIssuer(encrypted, turn.maker.instance)
  }
  return [...list(input).filter(isObject), ...output]
}

const parseStored = async (source: string, loopTurn: LoopTurn): Promise<unknown> => {
  if (source.length <= PIECE) return parseJson(source)
  const parsed = await inTurns(readLarge(source, Number.POSITIVE_INFINITY), loopTurn)
  return parsed.ok ? parsed.value : undefined
}

/**
 * An item of an earlier turn, for any target: without the id and status that only its provider knows. A reasoning item
 * without encrypted content keeps an id, marked as the gateway's.
 */
export const portableItem = (item: JsonObject): JsonObject => {
  switch (item.type) {
    case 'message':
    case 'function_call':
    case 'function_call_output':
    case 'custom_tool_call':
    case 'custom_tool_call_output': {
      const { id: _id, status: _status, ...rest } = item
      return rest
    }
    case 'reasoning': {
      const { status: _status, ...rest } = item
      return text(item.encrypted_content) ? rest : { ...rest, id: `rs_hg_${text(item.id) ?? ''}` }
    }
    default:
      return item
  }
}

/** The error for a tool result without its call; providers reject it with differing errors. Null: each has its call. */
export const orphanedResult = (earlier: readonly JsonObject[], input: readonly JsonObject[]): Failure | null => {
  const called = new Set([...earlier, ...input].filter(isCall).map(({ call_id }) => call_id))
  const at = input.findIndex((item) => isResult(item) && !called.has(item.call_id))
  if (at === -1) return null
  const id = JSON.stringify(input[at]?.call_id ?? null)
  return fail(
    'invalid_request',
    `No tool call found for the call_id ${id} of this output. Send the call_id of a call the model made.`,
    { param: `input[${at}].call_id` },
  )
}

const isCall = ({ type }: JsonObject): boolean => type === 'function_call' || type === 'custom_tool_call'
const isResult = ({ type }: JsonObject): boolean =>
  type === 'function_call_output' || type === 'custom_tool_call_output'

/**
 * Maps a path in the whole conversation to the client's own request. `earlier`: items before its input. `wasString`: its
 * input was a string, which has no items.
 */
export const clientPathIn =
  (earlier: number, wasString: boolean) =>
  (path: string): string => {
    const [, index, rest] = /^input\[(\d+)\](.*)$/s.exec(path) ?? []
    if (index === undefined) return path
    if (Number(index) < earlier) return 'previous_response_id'
    return wasString ? 'input' : `input[${Number(index) - earlier}]${rest}`
  }
