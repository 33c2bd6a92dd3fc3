import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { promisify, stripVTControlCharacters } from 'node:util'
import { defaultSettings } from '../../test/support/settings.ts'
import type { Config } from '../core/config.ts'
import { DIRECT } from '../core/egress.ts'
import type { Instance } from '../core/provider.ts'
import { Secret } from '../core/secret.ts'
import { settingsSchema } from '../core/settings.ts'
import { banner, curlLine, type Facts, readyFields, urlOf } from './banner.ts'
import { colours } from './colour.ts'

const instance = (id: string, keys: number, more: Partial<Instance> = {}): Instance => ({
  id,
  provider: {
    name: id,
    title: id,
    order: 1,
    speaks: [{ protocol: 'openai-chat' }],
    auth: 'none',
    defaultModel: `${id}-default`,
  },
  baseUrl: `https://${id}.example`,
  keys:
    keys === 0
      ? [{ id: '0000', secret: null, weight: 1 }]
      : Array.from({ length: keys }, (_, index) => ({ id: `000${index}`, secret: new Secret('canary'), weight: 1 })),
  models: [],
  speaks: [{ protocol: 'openai-chat' }],
  variables: {},
  ...more,
})

const demo: Instance = {
  ...instance('demo', 0),
  provider: { ...instance('demo', 0).provider, builtin: true, defaultModel: 'echo' },
}

const facts = (instances: readonly Instance[], more: Partial<Facts> = {}, config: Partial<Config> = {}): Facts => ({
  version: '0.1.0',
  readyMs: 212.4,
  address: { host: '127.0.0.1', port: 3000 },
  config: { settings: defaultSettings, instances, routes: new Map(), network: DIRECT, ...config },
  production: false,
  keyed: false,
  file: null,
  warnings: [],
  ...more,
})

test('banner: shows version, address, providers and settings', () => {
  const text = banner(
    facts([instance('openai', 2), instance('groq', 1, { models: ['llama', 'x'] }), instance('vllm', 0)], {
      file: 'headgate.yaml',
      warnings: ['OPENAI_KEY is set, which nothing reads; did you mean OPENAI_API_KEY?'],
    }),
  )
  assert.equal(
    text,
    `
  headgate 0.1.0   ready in 212 ms

  Address    http://127.0.0.1:3000/v1   for OPENAI_BASE_URL
  Dashboard  http://127.0.0.1:3000/dashboard/
  Providers  openai  2 keys   openai-default
             groq    1 key    llama
             vllm    no key   vllm-default
  Circuits   timeout 30 s, opens at 50 % of 5 or more in 60 s or 5 failures in a row, probed after 10 s
  Clients    auth off, only this machine can call
  Config     headgate.yaml
  Data       .headgate
  ! OPENAI_KEY is set, which nothing reads; did you mean OPENAI_API_KEY?

  curl http://127.0.0.1:3000/v1/chat/completions -H 'content-type: application/json' -d '{"model":"auto","messages":[{"role":"user","content":"hello"}]}'
`,
  )
  assert.equal(
    stripVTControlCharacters(banner(facts([instance('openai', 1)]), colours)),
    banner(facts([instance('openai', 1)])),
  )
})

test('banner: shows the address of the dashboard only where it is served', () => {
  const off = facts([demo], {}, { settings: settingsSchema.parse({ dashboard: { enabled: false } }) })
  assert.doesNotMatch(banner(off), /Dashboard/)
  assert.equal(readyFields(off).dashboard, null)
  assert.equal(readyFields(facts([demo])).dashboard, 'http://127.0.0.1:3000/dashboard/')
})

test('banner: shows which providers use a cloud identity', () => {
  const signed = (id: string, cloud: 'aws' | 'google' | 'entra', keys: number): Instance => {
    const one = instance(id, keys)
    const identity = cloud === 'aws' ? { cloud, service: 'bedrock', region: 'r' } : { cloud, scope: 's' }
    return { ...one, provider: { ...one.provider, auth: { header: 'authorization', identity: () => identity } } }
  }
  const all = facts([signed('bedrock', 'aws', 0), signed('vertex', 'google', 0), signed('azure', 'entra', 1)])
  const text = banner(all)
  assert.ok(
    text.includes(`Providers  bedrock  by AWS credentials               bedrock-default
             vertex   by Google's default credentials  vertex-default
             azure    1 key                            azure-default`),
    text,
  )
  assert.deepEqual(readyFields(all).signed_in_by, ['aws', 'google', ''])
  assert.equal('signed_in_by' in readyFields(facts([instance('openai', 1)])), false)
})

test('banner: without a provider, shows the remedy', () => {
  assert.match(banner(facts([demo])), /demo {2}built in; answers without calling a model\n.*set OPENAI_API_KEY/)
  assert.match(banner(facts([], { production: true })), /none configured: set OPENAI_API_KEY[^\n]*\n.*return 503/)
  assert.match(String(readyFields(facts([], { production: true })).message), /No provider is configured/)
})

test('banner: has at most twenty lines', () => {
  const many = Array.from({ length: 60 }, (_, index) => instance(`p${index}`, 1))
  for (const count of [0, 1, 5, 12, 60])
    for (const warnings of [0, 1, 3, 9]) {
      const text = banner(facts(many.slice(0, count), { warnings: Array.from({ length: warnings }, () => 'w') }))
      assert.ok(text.split('\n').length <= 20, `${count} providers, ${warnings} warnings: ${text.split('\n').length}`)
      assert.equal(text.match(/curl /g)?.length, 1)
    }
  assert.match(banner(facts(many)), /and \d+ more/)
})

test('banner: warns if other machines can call without keys, else shows the number of keys', () => {
  const open = facts([demo], { address: { host: '0.0.0.0', port: 80 } })
  assert.match(banner(open), /auth OFF, and other machines can call: set AUTH_KEYS/)
  const settings = settingsSchema.parse({ auth: { keys: ['canary-a', 'canary-b'], admin: 'canary-c' } })
  const closed = banner(facts([demo], { address: { host: '::', port: 80 }, keyed: true }, { settings }))
  assert.match(closed, /auth 2 client keys \(AUTH_KEYS\)/)
  assert.match(closed, /authorization: Bearer YOUR_CLIENT_KEY/)
  assert.doesNotMatch(closed, /canary/)
})

test('ready: has the same facts as fields, without secrets', () => {
  const settings = settingsSchema.parse({ auth: { keys: ['canary-a'] } })
  const fields = readyFields(facts([instance('openai', 2), instance('vllm', 0)], { keyed: true }, { settings }))
  assert.deepEqual(
    [fields.url, fields.providers, fields.keys, fields.models, fields.auth],
    ['http://127.0.0.1:3000', ['openai', 'vllm'], [2, 0], ['openai-default', 'vllm-default'], 'keys'],
  )
  assert.doesNotMatch(JSON.stringify(fields), /canary/)
})

const urls = [
  ['127.0.0.1', 'http://127.0.0.1:80'],
  ['0.0.0.0', 'http://127.0.0.1:80'],
  ['::', 'http://127.0.0.1:80'],
  ['::1', 'http://[::1]:80'],
  ['gate.example', 'http://gate.example:80'],
] as const
for (const [host, url] of urls) test(`urlOf: ${host}`, () => assert.equal(urlOf({ host, port: 80 }), url))

test('the curl line works when pasted into a shell', async (t) => {
  const bodies: string[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    bodies.push(`${request.method} ${request.url} ${request.headers['content-type']} ${body}`)
    response.end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  const line = curlLine(facts([demo], { address: { host: '127.0.0.1', port: address.port } }))
  try {
    await promisify(execFile)('sh', ['-c', `${line} --silent --noproxy '*' --max-time 5`])
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 127) {
      t.skip('there is no curl on this machine')
      return
    }
    throw error
  }
  assert.deepEqual(bodies, [
    'POST /v1/chat/completions application/json {"model":"demo/echo","messages":[{"role":"user","content":"hello"}]}',
  ])
})
