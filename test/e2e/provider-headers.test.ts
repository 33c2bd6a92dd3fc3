// biome-ignore-all lint/suspicious/noTemplateCurlyInString: a reference to a variable is under test
/** Headers that the operator sets for a provider, and those of clients that a provider reads, in every style. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream } from '../support/upstream.ts'
import { post, start } from './support/process.ts'

const TOKEN = 'gate-token-0123456789'
/** What SDKs and tools send (Portkey-AI/gateway#364, comet-ml/opik#6205, diegosouzapw/OmniRoute#8369). */
const CLIENT = {
  'OpenAI-Organization': 'org-client',
  'OpenAI-Project': 'proj-client',
  'HTTP-Referer': 'https://client.example',
  'X-Title': 'Client',
  'X-OpenRouter-Title': 'Client too',
  'X-HF-Bill-To': 'team-client',
  'X-Custom-Auth': 'custom',
  Cookie: 'session=1',
}
const NAMES = [...Object.keys(CLIENT).map((name) => name.toLowerCase()), 'x-gate']

const BODIES = {
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'x' }] },
  '/v1/responses': { input: 'x' },
  '/v1/messages': { max_tokens: 5, messages: [{ role: 'user', content: 'x' }] },
  '/v1/embeddings': { input: 'x' },
  '/v1/completions': { prompt: 'x' },
}

const EXPECTED: readonly (readonly [provider: string, headers: { readonly [name: string]: string }])[] = [
  // The operator has set the project, so the client cannot choose it.
  ['openai', { 'openai-organization': 'org-client', 'openai-project': 'proj-operator' }],
  ['openai-closed', { 'openai-organization': 'org-operator' }],
  ['openrouter', { 'http-referer': 'https://client.example', 'x-title': 'Client', 'x-openrouter-title': 'Client too' }],
  ['huggingface', { 'x-hf-bill-to': 'team-client' }],
  ['gate', { 'http-referer': 'https://operator.example', 'x-custom-auth': 'custom', 'x-gate': TOKEN }],
  ['deepseek', {}],
]

/** Those that the provider reads and that the operator has replaced. */
const WITHHELD: { readonly [provider: string]: readonly string[] } = {
  openai: ['headers.openai-project'],
  'openai-closed': ['headers.openai-organization', 'headers.openai-project'],
}

test('headers for providers: those of the operator and of the client reach the provider that reads them, in every style', async () => {
  const upstream = await startUpstream((call) =>
    call.body.includes('refuse me')
      ? {
          do: 'answer',
          status: 400,
          body: { error: { message: `Your gate sent ${TOKEN}.`, type: 'invalid_request_error' } },
        }
      : answerWith(call, { text: 'hello' }),
  )
  after(upstream.close)
  const place = (name: string) => ({ baseUrl: `${upstream.url}/${name}/v1`, keys: ['k'], models: ['m'] })
  await using gateway = await start({
    env: { OPENAI_PROJECT_ID: 'proj-operator', GATE_TOKEN: TOKEN },
    files: {
      'headgate.yaml': JSON.stringify({
        fallback: 'none',
        providers: {
          openai: place('openai'),
          'openai-closed': {
            ...place('openai-closed'),
            kind: 'openai',
            headers: { 'OpenAI-Organization': 'org-operator' },
            forwardHeaders: [],
          },
          openrouter: place('openrouter'),
          huggingface: place('huggingface'),
          deepseek: place('deepseek'),
          gate: {
            ...place('gate'),
            kind: 'openai-compatible',
            headers: { 'X-Gate': '${GATE_TOKEN}', 'http-referer': 'https://operator.example' },
            forwardHeaders: ['X-Custom-Auth', 'HTTP-Referer'],
          },
        },
      }),
    },
  })
  for (const [provider, expected] of EXPECTED) {
    for (const [path, body] of Object.entries(BODIES)) {
      const before = upstream.requests.length
      const answer = await post(gateway.url + path, { model: `${provider}/m`, ...body }, CLIENT)
      const sent = upstream.requests
        .slice(before)
        .find((one) => one.path.startsWith(`/${provider}/`) && one.method === 'POST')
      // Some of these providers have no embeddings.
      if (!sent && path === '/v1/embeddings') continue
      assert.ok(sent, `${provider} ${path}`)
      const got = Object.fromEntries(
        NAMES.flatMap((name) => (sent.headers[name] === undefined ? [] : [[name, sent.headers[name]]])),
      )
      assert.deepEqual(got, expected, `${provider} ${path}`)
      const dropped = (answer.headers.get('x-headgate-dropped') ?? '')
        .split(', ')
        .filter((name) => name.startsWith('headers.'))
      assert.deepEqual(dropped, WITHHELD[provider] ?? [], `${provider} ${path}`)
    }
  }
  const listed = (provider: string) =>
    upstream.requests.find(({ method, path }) => method === 'GET' && path === `/${provider}/v1/models`)?.headers
  assert.equal(listed('openai')?.['openai-project'], 'proj-operator')
  assert.equal(listed('openai')?.['openai-organization'], undefined)
  assert.equal(listed('gate')?.['x-gate'], TOKEN)

  const refused = await post(`${gateway.base}/chat/completions`, {
    model: 'gate/m',
    messages: [{ role: 'user', content: 'refuse me' }],
  })
  assert.match(refused.text, /Your gate sent \[key\]/)
  assert.doesNotMatch(refused.text + gateway.output(), new RegExp(TOKEN))
})
