/**
 * JSON Schema of a Cohere v2/chat request, written after its reference (docs.cohere.com/reference/chat, August 2026),
 * because Cohere publishes none. Objects are closed, so that an unknown member fails; limits are those of the
 * reference.
 */
import type { JsonObject } from '../../src/core/json.ts'

const of = (properties: JsonObject, required: readonly string[]): JsonObject => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})
const ref = (name: string): JsonObject => ({ $ref: `#/$defs/${name}` })
const many = (items: JsonObject, more: JsonObject = {}): JsonObject => ({ type: 'array', items, ...more })
const any = (...anyOf: readonly JsonObject[]): JsonObject => ({ anyOf })
const word = (...words: readonly string[]): JsonObject => ({ enum: words })
const text: JsonObject = { type: 'string' }
const flag: JsonObject = { type: 'boolean' }
const within = (type: string, minimum: number, maximum: number): JsonObject => ({ type, minimum, maximum })
/** Empty texts are rejected. */
const words = (block: JsonObject): JsonObject => any({ type: 'string', minLength: 1 }, many(block, { minItems: 1 }))

const $defs: JsonObject = {
  Text: of({ type: word('text'), text: { type: 'string', minLength: 1 } }, ['type', 'text']),
  Thinking: of({ type: word('thinking'), thinking: text }, ['type', 'thinking']),
  Image: of(
    {
      type: word('image_url'),
      image_url: of({ url: { type: 'string', pattern: '^(https?:|data:)' }, detail: word('auto', 'low', 'high') }, [
        'url',
      ]),
    },
    ['type', 'image_url'],
  ),
  Document: of({ id: text, data: any({ type: 'object' }, text) }, ['data']),
  DocumentContent: of({ type: word('document'), document: ref('Document') }, ['type', 'document']),
  System: of({ role: word('system'), content: words(ref('Text')) }, ['role', 'content']),
  User: of({ role: word('user'), content: words(any(ref('Text'), ref('Image'))) }, ['role', 'content']),
  Assistant: any(
    of({ role: word('assistant'), content: words(any(ref('Text'), ref('Thinking'))) }, ['role', 'content']),
    // A message with tool calls has no text (vercel/ai#5794 quotes the rejection).
    of(
      {
        role: word('assistant'),
        content: words(ref('Thinking')),
        tool_plan: { type: 'string', minLength: 1 },
        tool_calls: many(ref('ToolCall'), { minItems: 1 }),
      },
      ['role', 'tool_calls'],
    ),
  ),
  ToolCall: of(
    {
      id: { type: 'string', minLength: 1 },
      type: word('function'),
      function: of({ name: ref('ToolName'), arguments: text }, ['name', 'arguments']),
    },
    ['id', 'type', 'function'],
  ),
  /** The permitted characters come from Cohere's list of errors. */
  ToolName: { type: 'string', pattern: '^[A-Za-z_][A-Za-z0-9_]*$' },
  ToolResult: of(
    {
      role: word('tool'),
      tool_call_id: text,
      content: any(text, many(any(ref('Text'), ref('DocumentContent')), { minItems: 1 })),
    },
    ['role', 'tool_call_id', 'content'],
  ),
  Tool: of(
    {
      type: word('function'),
      function: of({ name: ref('ToolName'), description: text, parameters: { type: 'object' } }, [
        'name',
        'parameters',
      ]),
    },
    ['type', 'function'],
  ),
  ChatRequest: of(
    {
      model: text,
      messages: many(any(ref('System'), ref('User'), ref('Assistant'), ref('ToolResult')), { minItems: 1 }),
      stream: flag,
      tools: many(ref('Tool'), { minItems: 1 }),
      strict_tools: flag,
      tool_choice: word('REQUIRED', 'NONE'),
      documents: many(any(text, ref('Document'))),
      citation_options: of({ mode: word('ENABLED', 'DISABLED', 'FAST', 'ACCURATE', 'OFF') }, []),
      response_format: of({ type: word('text', 'json_object'), json_schema: { type: 'object' } }, ['type']),
      thinking: of({ type: word('enabled', 'disabled'), token_budget: { type: 'integer', minimum: 1 } }, ['type']),
      safety_mode: word('CONTEXTUAL', 'STRICT', 'OFF'),
      max_tokens: { type: 'integer', minimum: 1 },
      temperature: within('number', 0, 1),
      p: within('number', 0.01, 0.99),
      k: within('integer', 0, 500),
      seed: within('integer', 0, 2 ** 64),
      stop_sequences: many(text, { maxItems: 5 }),
      frequency_penalty: within('number', 0, 1),
      presence_penalty: within('number', 0, 1),
      logprobs: flag,
      priority: within('integer', 0, 999),
    },
    ['model', 'messages'],
  ),
}

/** Members that exclude each other: one penalty only, and no response format with tools or documents. */
const apart = (...pairs: readonly (readonly [string, string])[]): JsonObject => ({
  allOf: pairs.map((pair) => ({ not: { required: pair } })),
})

export const cohereSchema: JsonObject = {
  $id: 'urn:wire:cohere',
  $defs: {
    ...$defs,
    Request: {
      allOf: [
        ref('ChatRequest'),
        apart(
          ['frequency_penalty', 'presence_penalty'],
          ['response_format', 'tools'],
          ['response_format', 'documents'],
        ),
      ],
    },
  },
}
