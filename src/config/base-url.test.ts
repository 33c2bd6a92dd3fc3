import assert from 'node:assert/strict'
import { test } from 'node:test'
import { baseUrlProblem } from './base-url.ts'
import { loadProviders } from './catalogue/load-providers.ts'
import { configure } from './configure.ts'

const providers = await loadProviders()
const given = (name: string) => providers.get(name) ?? assert.fail(name)

/** The value that is suggested; null: no warning. */
const cases: readonly (readonly [provider: string, url: string, meant: string | null])[] = [
  // A whole endpoint (harry0703/MoneyPrinterTurbo#57).
  ['openai', 'https://api.openai.com/v1/chat/completions', 'https://api.openai.com/v1'],
  ['openai', 'https://api.openai.com/v1/chat/completions/', 'https://api.openai.com/v1'],
  ['openai', 'https://api.openai.com/chat/completions', 'https://api.openai.com/v1'],
  ['openai', 'https://api.openai.com/v1/responses', 'https://api.openai.com/v1'],
  ['openai', 'https://api.openai.com/v1/embeddings', 'https://api.openai.com/v1'],
  ['openai', 'https://api.openai.com/v1/models', 'https://api.openai.com/v1'],
  ['openai', 'https://api.openai.com/v1/completions', 'https://api.openai.com/v1'],
  ['anthropic', 'https://api.anthropic.com/v1/messages', 'https://api.anthropic.com/v1'],
  ['anthropic', 'https://api.anthropic.com/v1/messages/count_tokens', 'https://api.anthropic.com/v1'],
  [
    'gemini',
    'https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent',
    'https://generativelanguage.googleapis.com/v1beta',
  ],
  [
    'gemini',
    'https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent',
    'https://generativelanguage.googleapis.com/v1beta',
  ],
  ['ollama', 'http://localhost:11434/api/chat', 'http://localhost:11434'],
  ['ollama', 'http://localhost:11434/v1/chat/completions', 'http://localhost:11434/v1'],
  ['cohere', 'https://api.cohere.com/v2/chat', 'https://api.cohere.com'],
  ['openai-compatible', 'https://llm.example/openai/v1/chat/completions', 'https://llm.example/openai/v1'],
  ['perplexity', 'https://api.perplexity.ai/chat/completions', 'https://api.perplexity.ai'],
  // Without the version (microsoft/TaskWeaver#11, OpenHands/OpenHands#485, stitionai/devika#456).
  ['openai', 'https://api.openai.com', 'https://api.openai.com/v1'],
  ['openai', 'https://api.openai.com/', 'https://api.openai.com/v1'],
  ['vllm', 'http://localhost:8000', 'http://localhost:8000/v1'],
  ['lmstudio', 'http://localhost:1234', 'http://localhost:1234/v1'],
  ['openai-compatible', 'http://10.0.0.5:8082', 'http://10.0.0.5:8082/v1'],
  ['openrouter', 'https://openrouter.ai', 'https://openrouter.ai/api/v1'],
  ['openrouter', 'https://openrouter.ai/api', 'https://openrouter.ai/api/v1'],
  ['groq', 'https://api.groq.com/openai', 'https://api.groq.com/openai/v1'],
  ['zai', 'https://api.z.ai/api/paas', 'https://api.z.ai/api/paas/v4'],
  ['mistral', 'https://api.mistral.ai', 'https://api.mistral.ai/v1'],
  // Nothing is wrong.
  ['openai', 'https://api.openai.com/v1', null],
  ['openai', 'https://api.openai.com/v1/', null],
  ['openai', 'https://gateway.corp/openai', null],
  ['openai', 'https://gateway.corp/team/v2', null],
  ['openai', 'https://eu.api.openai.com/v1', null],
  ['anthropic', 'https://api.anthropic.com', null],
  ['anthropic', 'https://api.anthropic.com/v1', null],
  ['deepseek', 'https://api.deepseek.com', null],
  ['deepseek', 'https://api.deepseek.com/v1', null],
  ['perplexity', 'https://api.perplexity.ai', null],
  ['cohere', 'https://api.cohere.com', null],
  ['ollama', 'http://localhost:11434', null],
  ['azure-openai', 'https://res.openai.azure.com', null],
  ['bedrock', 'https://bedrock-runtime.eu-west-1.amazonaws.com', null],
  ['zai', 'https://api.z.ai/api/coding/paas/v4', null],
  ['deepinfra', 'https://api.deepinfra.com/v1/openai', null],
  ['openai-compatible', 'https://llm.example/completions-service/v1', null],
]
for (const [name, url, meant] of cases)
  test(`base URL: ${url} of ${name} ${meant === null ? 'is right' : `was meant as ${meant}`}`, () => {
    const problem = baseUrlProblem(new URL(url), given(name))
    assert.equal(/did you mean (.*)\?$/.exec(problem ?? '')?.[1] ?? null, meant, problem ?? '')
  })

test('base URL: the default address of every provider is right', () => {
  for (const provider of new Set(providers.values()))
    if (provider.baseUrl && !provider.builtin) assert.equal(baseUrlProblem(new URL(provider.baseUrl), provider), null)
})

test('base URL: the start warns with the variable and the corrected value, and is not refused', () => {
  const env = { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'https://api.openai.com/v1/chat/completions' }
  const result = configure({ env, providers })
  assert.ok(result.ok)
  assert.deepEqual(result.warnings, [
    'OPENAI_BASE_URL: "https://api.openai.com/v1/chat/completions" ends with an endpoint (/chat/completions), which the gateway adds itself; did you mean https://api.openai.com/v1?',
  ])
  const missing = configure({ env: { VLLM_BASE_URL: 'http://localhost:8000' }, providers })
  assert.deepEqual(missing.warnings, [
    'VLLM_BASE_URL: "http://localhost:8000" lacks /v1, which this provider usually has; did you mean http://localhost:8000/v1?',
  ])
})
