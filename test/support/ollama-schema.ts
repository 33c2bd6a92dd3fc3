/**
 * JSON Schema of an Ollama `/api/chat` request, after its documentation (docs/openapi.yaml and docs/api.md of
 * ollama/ollama). Objects are closed: the server ignores unknown members, so a missing one would be lost silently. Call
 * ids are in Ollama's source (api/types.go), not yet in its documentation.
 */
import type { JsonObject } from '../../src/core/json.ts'

const TEXT = { type: 'string' }
const object = (properties: JsonObject, required: readonly string[]): JsonObject => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})

export const ollamaSchema: JsonObject = {
  $id: 'urn:wire:ollama',
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $defs: {
    ChatRequest: object(
      {
        model: { type: 'string', minLength: 1 },
        messages: { type: 'array', items: { $ref: '#/$defs/ChatMessage' } },
        tools: { type: 'array', items: { $ref: '#/$defs/ToolDefinition' } },
        format: { anyOf: [{ const: 'json' }, { type: 'object' }] },
        options: { $ref: '#/$defs/ModelOptions' },
        stream: { type: 'boolean' },
        think: { anyOf: [{ type: 'boolean' }, { enum: ['high', 'medium', 'low'] }] },
        keep_alive: { type: ['string', 'number'] },
        truncate: { type: 'boolean' },
        shift: { type: 'boolean' },
        logprobs: { type: 'boolean' },
        top_logprobs: { type: 'integer', minimum: 0, maximum: 20 },
      },
      ['model', 'messages', 'stream'],
    ),
    ChatMessage: object(
      {
        role: { enum: ['system', 'user', 'assistant', 'tool'] },
        content: TEXT,
        thinking: TEXT,
        images: { type: 'array', items: { type: 'string', pattern: '^[A-Za-z0-9+/]*={0,2}$' } },
        tool_calls: { type: 'array', items: { $ref: '#/$defs/ToolCall' } },
        tool_name: TEXT,
        tool_call_id: TEXT,
      },
      ['role', 'content'],
    ),
    ToolCall: object(
      {
        id: TEXT,
        function: object({ name: TEXT, description: TEXT, arguments: { type: 'object' } }, ['name', 'arguments']),
      },
      ['function'],
    ),
    ToolDefinition: object(
      {
        type: { const: 'function' },
        function: object({ name: TEXT, description: TEXT, parameters: { type: 'object' } }, ['name', 'parameters']),
      },
      ['type', 'function'],
    ),
    // Open in the documentation too: a model runner may have more options.
    ModelOptions: {
      type: 'object',
      properties: {
        seed: { type: 'integer' },
        temperature: { type: 'number' },
        top_k: { type: 'integer' },
        top_p: { type: 'number' },
        min_p: { type: 'number' },
        presence_penalty: { type: 'number' },
        frequency_penalty: { type: 'number' },
        repeat_penalty: { type: 'number' },
        stop: { type: 'array', items: TEXT },
        num_ctx: { type: 'integer' },
        num_predict: { type: 'integer' },
      },
    },
  },
}
