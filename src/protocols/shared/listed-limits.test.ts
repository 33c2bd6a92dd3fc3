import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json } from '../../core/json.ts'
import { limitsIn } from './listed-limits.ts'

const cases: readonly (readonly [server: string, list: Json, expected: { readonly [model: string]: object }])[] = [
  [
    // docs.vllm.ai, and github.com/vllm-project/vllm/issues/42474.
    'vLLM',
    { object: 'list', data: [{ id: 'm1', object: 'model', owned_by: 'vllm', max_model_len: 32768 }] },
    { m1: { contextWindow: 32768 } },
  ],
  ['vLLM, an adapter without the figure', { data: [{ id: 'lora', max_model_len: null }] }, {}],
  [
    // github.com/ggml-org/llama.cpp, tools/server/README.md: the list is repeated as `models`.
    'llama.cpp',
    {
      models: [{ name: 'q.gguf', model: 'q.gguf' }],
      data: [{ id: 'q.gguf', meta: { vocab_type: 2, n_vocab: 128256, n_ctx_train: 131072, n_embd: 4096 } }],
    },
    { 'q.gguf': { contextWindow: 131072 } },
  ],
  [
    // lmstudio.ai/docs/developer/rest/endpoints.
    'LM Studio',
    { data: [{ id: 'q', state: 'loaded', max_context_length: 32768, loaded_context_length: 4096 }] },
    { q: { contextWindow: 4096 } },
  ],
  [
    // zed-industries/zed#25606: with which window a model will be loaded is not known.
    'LM Studio, a model that is not loaded',
    { data: [{ id: 'q', state: 'not-loaded', max_context_length: 131072 }] },
    {},
  ],
  [
    // openrouter.ai/docs/api/api-reference/models/get-models.
    'OpenRouter',
    {
      data: [
        {
          id: 'a/b',
          context_length: 200000,
          top_provider: { context_length: 128000, max_completion_tokens: 8192, is_moderated: false },
        },
        { id: 'c/d', context_length: 4096, top_provider: { context_length: null, max_completion_tokens: null } },
      ],
    },
    { 'a/b': { contextWindow: 128000, maxOutputTokens: 8192 }, 'c/d': { contextWindow: 4096 } },
  ],
  [
    // console.groq.com/docs/api-reference#models.
    'Groq',
    { data: [{ id: 'g', active: true, context_window: 131072, max_completion_tokens: 32768 }] },
    { g: { contextWindow: 131072, maxOutputTokens: 32768 } },
  ],
  ['Together: a bare array', [{ id: 't', context_length: 8193 }], { t: { contextWindow: 8193 } }],
  [
    // ai.google.dev/api/models.
    'Gemini',
    { models: [{ name: 'models/gemini-x', inputTokenLimit: 1048576, outputTokenLimit: 65536 }] },
    { 'gemini-x': { contextWindow: 1048576, maxOutputTokens: 65536 } },
  ],
  ['figures that are none', { data: [{ id: 'x', max_model_len: '4096', context_length: 0, context_window: 1.5 }] }, {}],
  ['no list', 'text', {}],
]
for (const [server, body, expected] of cases)
  test(`limits in a model list: ${server}`, () => assert.deepEqual(Object.fromEntries(limitsIn(body)), expected))
