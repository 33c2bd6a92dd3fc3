import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { MAIN, post, run, start } from './support/process.ts'

test('start: without configuration the demo answers, and is labelled as one', async () => {
  await using gateway = await start()
  const whole = await post(`${gateway.base}/chat/completions`, {
    model: 'whatever',
    messages: [{ role: 'user', content: 'hello' }],
  })
  assert.equal(whole.status, 200)
  assert.match(whole.json().choices[0].message.content, /^\[demo\] No model was called\./)
  assert.match(whole.json().choices[0].message.content, /OPENAI_API_KEY/)
  assert.equal(whole.headers.get('x-headgate-provider'), 'demo')
  const streamed = await post(`${gateway.base}/responses`, { model: 'demo/echo', input: 'hello', stream: true })
  assert.equal(streamed.status, 200)
  assert.match(streamed.text, /event: response\.completed\n/)
  assert.ok(streamed.text.endsWith('data: [DONE]\n\n'))
  const chain = await post(`${gateway.base}/chat/completions`, {
    model: 'demo/chain',
    messages: [{ role: 'user', content: 'x' }],
  })
  assert.match(chain.headers.get('x-headgate-trail') ?? '', /^demo#\w+:503, demo#\w+:200$/)
  assert.equal(await gateway.stop(), 0)
})

test('start: the demo chain answers all of ten quick calls', async () => {
  await using gateway = await start()
  const trails: (string | null)[] = []
  for (let n = 0; n < 10; n++) {
    const answer = await post(`${gateway.base}/chat/completions`, {
      model: 'demo/chain',
      messages: [{ role: 'user', content: 'hello' }],
    })
    assert.equal(answer.status, 200, answer.text)
    trails.push(answer.headers.get('x-headgate-trail'))
  }
  // The first target always fails. Its circuit opens after five failures, and it is skipped from then on.
  assert.match(trails[0] ?? '', /^demo#\w+:503, demo#\w+:200$/)
  assert.match(trails[9] ?? '', /^demo#\w+:circuit, .*demo#\w+:200$/)
})

test('start: the printed curl command works unchanged', async () => {
  await using gateway = await start()
  const { url } = gateway
  const body = '{"model":"demo/echo","messages":[{"role":"user","content":"hello"}]}'
  const line = `curl -s ${url}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`
  const response = execFileSync('sh', ['-c', line], { encoding: 'utf8', timeout: 10_000 })
  assert.match(response, /\[demo\] No model was called\./)
})

test('start: in production without a provider it serves, and reports what is missing', async () => {
  const env = { NODE_ENV: 'production', HOST: '127.0.0.1', DRAIN_DELAY: '0', AUTH_REQUIRED: 'false' }
  await using gateway = await start({ env })
  const answer = await post(`${gateway.base}/chat/completions`, {
    model: 'x',
    messages: [{ role: 'user', content: 'x' }],
  })
  assert.equal(answer.status, 503)
  assert.equal(answer.json().error.code, 'no_provider_configured')
  assert.equal(answer.json().error.type, 'configuration_error')
  assert.equal(answer.headers.get('x-should-retry'), 'false')
  const health = JSON.parse(await (await fetch(`${gateway.url}/health`)).text())
  assert.equal(health.status, 'unconfigured')
})

for (const [name, env, warned] of [
  ['beyond loopback without client keys', { HOST: '0.0.0.0' }, true],
  ['beyond loopback with client keys', { HOST: '0.0.0.0', AUTH_KEYS: 'client-key' }, false],
  ['on loopback without client keys', { HOST: '127.0.0.1' }, false],
] as const)
  test(`start: ${name}: ${warned ? 'a' : 'no'} warning about open access`, async () => {
    await using gateway = await start({ env })
    await post(`${gateway.base}/chat/completions`, {})
    await gateway.stop()
    const lines = gateway
      .output()
      .split('\n')
      .filter((line) => line.includes('"event":"open"'))
    assert.equal(lines.length, warned ? 1 : 0)
    if (warned) assert.match(lines[0] ?? '', /"level":"warn".*all interfaces.*AUTH_KEYS/)
  })

test('start: a client key in a path appears in neither the log nor the answer', async () => {
  await using gateway = await start({ env: { AUTH_KEYS: 'team-a-password' } })
  for (const key of ['team-a-password', 'sk-proj-canary0123456789'])
    for (const path of [`/${key}/chat/completions`, `/v1/chat/completions/${key}`, `/v1/models/x/${key}?key=${key}`]) {
      const answer = await fetch(gateway.url + path, { method: 'PUT' })
      assert.ok([401, 404, 405].includes(answer.status), path)
      assert.doesNotMatch(await answer.text(), /canary|team-a-password/)
    }
  await gateway.stop()
  assert.match(gateway.output(), /\[key\]/)
  assert.doesNotMatch(gateway.output(), /canary|team-a-password/)
})

test('start: invalid configuration exits with one line for each problem', async () => {
  const files = { 'headgate.yaml': 'circuit:\n  resetTimeout: soon\nprovidres: {}\n' }
  const { exited, output } = await run({
    env: { CIRCUIT_TIMEOUT: '30s', OPENAI_API_KEY: 'sk-canary-000000000000' },
    files,
  })
  assert.equal(await exited, 1)
  assert.match(output(), /CIRCUIT_TIMEOUT: .*"30s"/)
  assert.match(output(), /headgate\.yaml:2:\d+: /)
  assert.match(output(), /headgate\.yaml:3:\d+: .*providers/)
  assert.doesNotMatch(output(), /canary/)
  assert.equal(output().trim().split('\n').length, 3)
})

test('start: unknown arguments exit with an error', async () => {
  const output = (...words: string[]) =>
    spawnSync(process.execPath, [MAIN, ...words], { encoding: 'utf8', timeout: 20_000 })
  const version = output('--version')
  assert.deepEqual([version.status, version.stderr], [0, ''])
  assert.match(version.stdout, /^\d+\.\d+\.\d+\n$/)
  const port = output('--prot', '4000')
  assert.deepEqual([port.status, port.stdout], [2, ''])
  assert.match(port.stderr, /Did you mean --port\?/)
})

test('start: a port in use is reported, with a remedy', async () => {
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  const address = other.address()
  assert.ok(address && typeof address === 'object')
  const { exited, output } = await run({ env: { PORT: String(address.port) } })
  assert.equal(await exited, 1)
  assert.match(output(), new RegExp(`Port ${address.port} is in use.*PORT=${address.port + 1}`))
  other.close()
})
