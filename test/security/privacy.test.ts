/**
 * SEC-03, 05, 29, 32, 39: prompts, answers, tool arguments, files and client keys appear only where they were sent: not
 * in the most verbose log, on a page, in a header, an error or a file.
 */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import type { Started } from '../e2e/support/process.ts'
import { callsOf, sleep, stage } from '../e2e/support/stage.ts'
import { answerWith, failWith, piecesOf } from '../support/answers.ts'
import type { Upstream } from '../support/upstream.ts'
import { type Canary, KEY_FORMS, randomText, searchFor } from './support/canaries.ts'
import { type Witness, witness } from './support/witness.ts'

const on = stage()
const canaries: Canary[] = []
const canary = (name: string, isKey = false): string => {
  const value = isKey ? KEY_FORMS.usual() : randomText() + randomText()
  canaries.push({ name, value, isKey })
  return value
}
const client = canary('client key', true)
const admin = canary('admin token', true)
const wrong = canary('wrong key', true)
const request = {
  prompt: canary('prompt'),
  system: canary('system'),
  tool: canary('tool argument'),
  image: canary('image'),
  file: canary('file name'),
  user: canary('user'),
  cookie: canary('cookie'),
  agent: canary('user agent'),
  member: canary('unknown member'),
}
const answered = { text: canary('answer'), call: canary('call argument') }
let upstream: Upstream
let gateway: Started
let watch: Witness
before(async () => {
  upstream = await on.upstream((one) => {
    const { model = '' } = one
    if (model === 'tools')
      return answerWith(one, {
        tools: [{ id: 'call_1', name: 'f', arguments: JSON.stringify({ x: answered.call }) }],
      })
    if (model === 'down') return failWith(one, 500, { type: 'api_error', message: 'down' })
    if (model === 'breaks')
      return { do: 'stream', pieces: piecesOf(one, { text: answered.text }).slice(0, 4), ending: 'reset' }
    if (model === 'garbage') return { do: 'answer', body: `{"choices":[{"message":{"content":"${answered.text}"` }
    if (model === 'not-sse')
      return { do: 'stream', pieces: [`data: {"${answered.text}\n\n`, `data: ${answered.text}\n\n`] }
    return answerWith(one, { text: answered.text })
  })
  gateway = await on.gateway(
    {
      auth: { keys: [client], admin },
      circuit: { whenAllOpen: 'try' },
      providers: {
        same: { baseUrl: `${upstream.url}/v1`, keys: [canary('provider key', true)] },
        other: { baseUrl: `${upstream.url}/o/v1`, styles: ['messages'], keys: [canary('other key', true)] },
      },
    },
    { LOG_LEVEL: 'debug', DEBUG: '*', NODE_DEBUG: '' },
  )
  watch = witness(gateway, { authorization: `Bearer ${client}` })
})
const bodies = (model: string, stream: boolean): readonly (readonly [string, object])[] => {
  const url = `https://x.test/${request.image}.png`
  const extra = { user: request.user, metadata: { a: request.member }, x_unknown: request.member }
  const parameters = { type: 'object', properties: { [request.tool]: { type: 'string', description: request.tool } } }
  return [
    [
      '/v1/chat/completions',
      {
        model,
        stream,
        ...extra,
        messages: [
          { role: 'system', content: request.system },
          {
            role: 'user',
            content: [
              { type: 'text', text: request.prompt },
              { type: 'image_url', image_url: { url } },
            ],
          },
          {
            role: 'assistant',
            tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: `{"x":"${request.tool}"}` } }],
          },
          { role: 'tool', tool_call_id: 'c1', content: request.prompt },
        ],
        tools: [{ type: 'function', function: { name: 'f', parameters } }],
      },
    ],
    [
      '/v1/responses',
      {
        model,
        stream,
        store: false,
        ...extra,
        instructions: request.system,
        input: [
          {
            role: 'user',
            content: [
              { type: 'input_text', text: request.prompt },
              { type: 'input_image', image_url: url },
              {
                type: 'input_file',
                filename: request.file,
                file_data: `data:text/plain;base64,${Buffer.from(request.prompt).toString('base64')}`,
              },
            ],
          },
        ],
      },
    ],
    [
      '/v1/messages',
      {
        model,
        stream,
        max_tokens: 9,
        system: request.system,
        metadata: { user_id: request.user },
        messages: [{ role: 'user', content: [{ type: 'text', text: request.prompt }] }],
        tools: [{ name: 'f', input_schema: parameters }],
      },
    ],
    ['/v1/embeddings', { model, input: [request.prompt] }],
    ['/v1/completions', { model, stream, prompt: request.prompt }],
    ['/v1/messages/count_tokens', { model, messages: [{ role: 'user', content: request.prompt }] }],
  ]
}
const headers = {
  cookie: `a=${request.cookie}`,
  'user-agent': request.agent,
  referer: `http://127.0.0.1/${request.cookie}`,
}
const post = (path: string, body: unknown, more: Record<string, string> = {}) =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${client}`, ...headers, ...more },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  }).then(async (response) => ({
    status: response.status,
    head: JSON.stringify([...response.headers]),
    text: await response.text(),
  }))

for (const name of ['same', 'other'])
  test(`privacy: a request to ${name}, whatever its outcome`, async () => {
    let good = 0
    for (const model of ['fine', 'tools', 'down', 'breaks', 'garbage', 'not-sse'])
      for (const stream of [false, true])
        for (const [path, body] of bodies(`${name}/${model}`, stream)) {
          const { status, head, text } = await post(path, body)
          if (status === 200) good++
          watch.note(`the headers of ${path} ${model}`, head)
          // A successful response contains the answer; an error must not contain any of it.
          if (status !== 200) watch.note(`${path} ${model} ${status}`, text)
        }
    assert.ok(good > 10, String(good))
  })

test('privacy: rejections by authentication or the decoder do not quote the request', async () => {
  const { prompt } = request
  for (const path of ['/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1/embeddings', '/v1/route'])
    for (const body of [
      `{"model":"same/fine","messages":[{"role":"user","content":"${prompt}"`,
      `{"model":"same/fine","messages":[{"role":"${prompt}","content":"x"}],"input":[{"role":"${prompt}"}]}`,
      `{"model":"same/fine","messages":"${prompt}","input":{"a":"${prompt}"}}`,
      `{"model":"same/fine","temperature":"${prompt}","messages":[{"role":"user","content":"x"}],"input":"x"}`,
      prompt,
      `[${JSON.stringify(prompt)}]`,
      `{"model":"same/fine","model":"${prompt}"}`,
    ]) {
      const { status, head, text } = await post(path, body)
      if (status >= 400) watch.note(`${path} rejected`, head + text)
    }
  for (const more of [
    { authorization: `Bearer ${wrong}` },
    { authorization: wrong },
    { authorization: `Basic ${Buffer.from(wrong).toString('base64')}` },
    { authorization: '', 'x-api-key': wrong },
    { origin: `http://${request.cookie}.test` },
    { 'content-type': request.cookie },
    { 'x-request-id': `${request.cookie}\u00e9` },
  ]) {
    const { status, head, text } = await post(
      '/v1/chat/completions',
      { model: 'same/fine', messages: [] },
      more as Record<string, string>,
    )
    assert.ok(status >= 400)
    watch.note('rejected by authentication', head + text)
  }
})

test('privacy: every invalid key gets the same error', async () => {
  const answerTo = async (authorization: string) => {
    const { status, text } = await post('/v1/chat/completions', '{}', { authorization })
    return [status, text.replace(/req_[a-z]+/, '')]
  }
  const first = await answerTo(`Bearer ${wrong}`)
  assert.equal(first[0], 401)
  for (const other of [
    'Bearer x',
    `Bearer ${client.slice(0, -1)}`,
    `Bearer ${client}x`,
    `Bearer ${client.toUpperCase()}`,
    `Bearer ${'x'.repeat(5_000)}`,
  ])
    assert.deepEqual(await answerTo(other), first)
})

test('privacy: signals cause no diagnostic output', async () => {
  for (const signal of ['SIGUSR2', 'SIGHUP', 'SIGQUIT'] as const) {
    if (signal === 'SIGQUIT') continue
    if (signal === 'SIGUSR2') continue
    gateway.child.kill(signal)
    await sleep(300)
  }
  for (const path of [
    '/debug',
    '/debug/pprof',
    '/heapdump',
    '/json/list',
    '/.env',
    '/headgate.yaml',
    '/../headgate.yaml',
    '/%2e%2e/headgate.yaml',
    '/v1/%2e%2e/%2e%2e/.env',
    '/admin',
    '/config',
    '/v1/models/..%2f..%2f.env',
    '/server-status',
    '/actuator/env',
  ])
    assert.ok([400, 404].includes((await watch.ask(path)).status), path)
})

test('privacy: control characters are escaped in the log', async () => {
  const evil = `a\r\n{"event":"forged","level":"error"}\u001b[2J\u202e\u2028`
  for (const model of [evil, `same/${evil}`])
    await post('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'x' }] })
  await fetch(`${gateway.url}/${encodeURIComponent(evil)}`)
  await fetch(`${gateway.url}/v1/models/${encodeURIComponent(evil)}`, {
    headers: { authorization: `Bearer ${client}` },
  })
  assert.ok((await gateway.logged()).every(({ event }) => event !== 'forged'))
  const output = gateway.output()
  for (const sign of ['\u001b', '\u202e', '\u2028', '\r']) assert.ok(!output.includes(sign), JSON.stringify(sign))
  for (const line of output.split('\n').filter((one) => one !== '')) {
    assert.ok(line.startsWith('{') && line.endsWith('}'), line)
    assert.ok(line.length < 16_000)
  }
})

test('privacy: no output contains a secret', async () => {
  assert.ok(callsOf(upstream).length > 60)
  assert.ok((await gateway.logged()).length > 60)
  await watch.assertClean(canaries)
})

test('privacy: the database contains the stored answer, and no key', async () => {
  const { status, text } = await post('/v1/responses', { model: 'same/fine', input: request.prompt })
  assert.equal(status, 200, text)
  const words = canaries.filter(({ isKey }) => !isKey)
  const keys = canaries.filter(({ isKey }) => isKey)
  await watch.assertClean(words, (path) => path.includes('.headgate'))
  await watch.assertClean(keys)
  assert.notDeepEqual(searchFor(words)(text), [], 'the search finds existing text')
})
