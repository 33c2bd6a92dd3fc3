/** Services that decide about requests, over real sockets: what they receive, what they change, and what happens when they fail. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import type { JsonObject } from '../../src/core/json.ts'
import { STYLE_EXAMPLES } from '../../src/core/request-styles.ts'
import type { Started } from '../e2e/support/process.ts'
import { callsOf, stage } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import { verify } from '../support/sigv4.ts'
import { type Act, refusingUrl, type Script, startUpstream, type Upstream, until } from '../support/upstream.ts'
import { randomText } from './support/canaries.ts'
import { type Witness, witness } from './support/witness.ts'

const on = stage()
type Answered = Extract<Act, { readonly do: 'answer' }>
const json = (body: object, status = 200): Answered => ({ do: 'answer', status, body })
const ALLOW = json({ action: 'allow' })

type Texts = readonly { readonly i: number; readonly role: string | null; readonly text: string }[]
/** The texts that the service was asked about in its call number `at`; negative: from the end. */
const textsIn = (service: Upstream, at = -1): Texts => {
  const call = callsOf(service).at(at)
  assert.ok(call)
  return (call.json as unknown as { texts: Texts }).texts
}

/** A provider that repeats the last text it has received. */
const repeating: Script = (request) => {
  if (request.path.endsWith('/embeddings'))
    return json({
      object: 'list',
      model: 'm',
      data: [{ object: 'embedding', index: 0, embedding: [1] }],
      usage: { prompt_tokens: 1, total_tokens: 1 },
    })
  const said = [...request.body.matchAll(/"(?:content|text|prompt|input)":"([^"]+)"/g)].at(-1)?.[1] ?? 'nothing'
  return answerWith(request, { text: `You said: ${said}` })
}

type Given = {
  readonly gateway: Started
  readonly watch: Witness
  readonly service: Upstream
  readonly provider: Upstream
}

/** A gateway whose rule `shield` asks a service. */
const given = async (
  rule: { readonly action?: string; readonly service?: object } = {},
  file: object = {},
  env: Readonly<Record<string, string>> = {},
): Promise<Given> => {
  const [service, provider] = await Promise.all([on.upstream(() => ALLOW), on.upstream(repeating)])
  const { action = 'block', service: more = {} } = rule
  const gateway = await on.gateway(
    {
      providers: { up: { baseUrl: `${provider.url}/v1`, styles: ['chat'] } },
      fallback: 'none',
      ...file,
      guards: {
        ...(file as { guards?: object }).guards,
        shield: { action, service: { kind: 'headgate', url: `${service.url}/check`, timeout: 2_000, ...more } },
      },
    },
    env,
  )
  return { gateway, watch: witness(gateway), service, provider }
}

const bodyOf = (style: keyof typeof STYLE_EXAMPLES, text: string): JsonObject =>
  STYLE_EXAMPLES[style]({ model: 'up/m', text }) as JsonObject
const PATHS = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
  completions: '/v1/completions',
} as const
const STYLES = Object.keys(PATHS) as (keyof typeof PATHS)[]
const codeIn = (text: string) => /"(?:code|type)": ?"(guard[a-z_]+)"/.exec(text)?.[1]

// ── Verdicts ────────────────────────────────────────────────────────────────────────────────────────────────────────

test('guard services: allow, block and mask in all styles, whole and streamed', async (context) => {
  const { watch, service, provider } = await given({ action: 'mask' })
  for (const style of STYLES)
    for (const stream of [false, true])
      await context.test(`${style}, stream: ${stream}`, async () => {
        const canary = randomText()
        const send = (text: string) => watch.post(PATHS[style], { ...bodyOf(style, text), stream })
        service.play(() => ALLOW)
        const allowed = await send(`hello ${canary}`)
        assert.equal(allowed.status, 200, allowed.text)
        assert.ok(textsIn(service).some(({ text }) => text === `hello ${canary}`))

        service.play(() => json({ action: 'block', labels: ['jailbreak'], message: 'Not here.' }))
        const before = callsOf(provider).length
        const blocked = await send(`evil ${canary}`)
        assert.equal(blocked.status, 400, blocked.text)
        // An error of Anthropic has no code.
        if (style !== 'messages') assert.equal(codeIn(blocked.text), 'guardrail_blocked', blocked.text)
        assert.match(blocked.text, /shield.*jailbreak.*Not here\./)
        assert.ok(!blocked.text.includes(canary))
        assert.equal(callsOf(provider).length, before)

        service.play(({ json: body }) => {
          const spans = (body as unknown as { texts: Texts }).texts.flatMap(({ i, text }) => {
            const start = text.indexOf(canary)
            return start === -1 ? [] : [{ i, start, end: start + canary.length, label: 'PERSON' }]
          })
          return json({ action: 'mask', spans })
        })
        const masked = await send(`ask ${canary} 😀`)
        assert.equal(masked.status, 200, masked.text)
        const sent = callsOf(provider).at(-1)?.body ?? ''
        assert.match(sent, /ask \[PERSON_[A-Z2-7]{6}\] 😀/)
        assert.ok(!sent.includes(canary))
        assert.ok(masked.text.replaceAll(/","[^"]*"delta"|[^\S ]/g, '').includes(canary), masked.text)
        assert.match(masked.headers.get('x-headgate-guards') ?? '', /shield=mask:1/)
      })
  await watch.assertClean([])
})

test('guard services: embeddings, and texts that a rule has masked before', async () => {
  const { watch, service } = await given({}, { guards: { pii: { find: ['email'], action: 'mask' } } })
  await watch.post('/v1/embeddings', { model: 'up/m', input: ['one', 'ann@example.com'] })
  const texts = textsIn(service).map(({ text }) => text)
  assert.equal(texts[0], 'one')
  assert.match(texts[1] ?? '', /^\[EMAIL_[A-Z2-7]{6}\]$/)
})

test('guard services: stored turns are read again, and a blocked background response fails', async () => {
  const { watch, service, provider } = await given()
  const first = await watch.post('/v1/responses', { model: 'up/m', input: 'first turn' })
  assert.equal(first.status, 200, first.text)
  const { id } = JSON.parse(first.text)
  await watch.post('/v1/responses', { model: 'up/m', input: 'second turn', previous_response_id: id })
  const texts = textsIn(service).map(({ text }) => text)
  assert.deepEqual(
    ['first turn', 'second turn'].map((text) => texts.includes(text)),
    [true, true],
  )
  service.play(() => json({ action: 'block' }))
  const calls = callsOf(provider).length
  const queued = await watch.post('/v1/responses', { model: 'up/m', input: 'third', background: true })
  const ended = async () => {
    for (let turn = 0; turn < 100; turn++) {
      const { text } = await watch.ask(`/v1/responses/${JSON.parse(queued.text).id}`)
      if (!/"status": ?"(?:queued|in_progress)"/.test(text)) return text
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    return 'never'
  }
  assert.equal(queued.status, 200, queued.text)
  const failed = JSON.parse(await ended())
  // One of the codes that OpenAI has for responses.
  assert.deepEqual([failed.status, failed.error.code], ['failed', 'invalid_prompt'])
  assert.match(failed.error.message, /Blocked by the rule "shield"/)
  assert.equal(callsOf(provider).length, calls)
})

test('guard services: a blocked text is not asked about again for a minute', async () => {
  const { watch, service } = await given()
  service.play(() => json({ action: 'block' }))
  for (let turn = 0; turn < 6; turn++) assert.equal((await watch.post(PATHS.chat, bodyOf('chat', 'evil'))).status, 400)
  assert.equal(callsOf(service).length, 1)
  service.play(() => ALLOW)
  assert.equal((await watch.post(PATHS.chat, bodyOf('chat', 'other'))).status, 200)
  assert.equal((await watch.post(PATHS.chat, bodyOf('chat', 'other'))).status, 200)
  assert.equal(callsOf(service).length, 3)
})

// ── Failures ────────────────────────────────────────────────────────────────────────────────────────────────────────

const REDIRECT = 307
/** What a service may do instead of an answer. `trap`: an address that nothing may reach. */
const FAILURES = (trap: string): readonly (readonly [name: string, act: Act])[] => [
  ['hangs', { do: 'hang' }],
  ['is slow', { ...json({ action: 'allow' }), after: 1_000 }],
  ['closes the connection', { do: 'close' }],
  ['resets the connection', { do: 'reset' }],
  ['is no HTTP', { do: 'raw', bytes: 'hello\r\n\r\n' }],
  ['fails', json({ action: 'allow' }, 500)],
  ['is overloaded', json({ action: 'allow' }, 503)],
  ['refuses the credential', json({ action: 'allow' }, 401)],
  ['redirects', { do: 'answer', status: REDIRECT, headers: { location: `${trap}/check` }, body: { action: 'allow' } }],
  ['answers a page', { do: 'answer', headers: { 'content-type': 'text/html' }, body: '<html>allow</html>' }],
  ['answers nothing', { do: 'answer', body: '' }],
  ['answers another contract', json({ action: 'NONE' })],
  ['answers a list', json([{ action: 'allow' }])],
  ['masks outside of the text', json({ action: 'mask', spans: [{ i: 0, start: 0, end: 9_999, label: 'X' }] })],
  ['masks an unknown text', json({ action: 'mask', spans: [{ i: 99, start: 0, end: 1, label: 'X' }] })],
  ['answers too much', json({ action: 'allow', more: 'x'.repeat(300_000) })],
  ['ends in the middle', { do: 'stream', pieces: ['{"action":"al'], ending: 'close' }],
  ['never ends', { do: 'stream', pieces: ['{"action":"allow"}'], ending: 'stall' }],
]

for (const onError of ['block', 'allow'] as const)
  test(`guard services: a service that fails, onError: ${onError}`, async (context) => {
    const trap = await startUpstream(() => ALLOW)
    on.keep(() => trap.close())
    const { gateway, watch, service, provider } = await given({ service: { timeout: 300, onError } })
    const canary = randomText()
    let errors = 0
    for (const [name, act] of FAILURES(trap.url))
      await context.test(name, async () => {
        service.play(() => act)
        const calls = callsOf(provider).length
        const begun = performance.now()
        const { status, headers, text } = await watch.post(PATHS.chat, bodyOf('chat', `hello ${canary}`))
        assert.ok(performance.now() - begun < 3_000)
        errors++
        if (onError === 'block') {
          assert.equal(status, 503, text)
          assert.equal(codeIn(text), 'guard_unavailable', text)
          assert.equal(headers.get('retry-after'), '2')
          assert.equal(callsOf(provider).length, calls)
          assert.ok(!text.includes(canary))
        } else {
          assert.equal(status, 200, text)
          assert.equal(callsOf(provider).length, calls + 1)
          assert.match(headers.get('x-headgate-guards') ?? '', /shield=error/)
        }
        // So that the next failure is not the fifth in succession.
        service.play(() => ALLOW)
        assert.equal((await watch.post(PATHS.chat, bodyOf('chat', 'fine'))).status, 200)
      })
    assert.equal(trap.connections(), 0)
    const { text: metrics } = await watch.ask('/metrics')
    assert.match(metrics, new RegExp(`headgate_guard_errors_total\\{guard="shield"\\} ${errors}\\n`))
    const lines = (await gateway.logged()).filter(({ event }) => event === 'guard_error')
    assert.equal(lines.length, errors)
    assert.ok(lines.every(({ guard, reason }) => guard === 'shield' && typeof reason === 'string'))
    assert.ok(!gateway.output().includes(canary))
  })

test('guard services: after five failures in succession the service has a pause', async () => {
  const { watch, service } = await given({ service: { timeout: 200 } })
  service.play(() => ({ do: 'hang' }))
  for (let turn = 0; turn < 5; turn++)
    assert.equal((await watch.post(PATHS.chat, bodyOf('chat', `hello ${turn}`))).status, 503)
  assert.equal(callsOf(service).length, 5)
  service.play(() => ALLOW)
  const begun = performance.now()
  for (let turn = 0; turn < 10; turn++)
    assert.equal((await watch.post(PATHS.chat, bodyOf('chat', `more ${turn}`))).status, 503)
  assert.equal(callsOf(service).length, 5)
  // Without the timeout of each.
  assert.ok(performance.now() - begun < 10 * 200)
})

test('guard services: a service that is not there', async () => {
  const { watch, provider } = await given({ service: { url: await refusingUrl() } })
  const { status, text } = await watch.post(PATHS.chat, bodyOf('chat', 'hello'))
  assert.deepEqual([status, codeIn(text), callsOf(provider).length], [503, 'guard_unavailable', 0])
})

test('guard services: lists of another length, by the contract of LiteLLM', async () => {
  const { watch, service, provider } = await given({ action: 'mask', service: { kind: 'litellm' } })
  const answer = (texts: readonly string[]) => service.play(() => json({ action: 'GUARDRAIL_INTERVENED', texts }))
  const send = (text: string) => watch.post(PATHS.chat, bodyOf('chat', text))
  answer(['[REDACTED]'])
  assert.equal((await send('my ssn is 123')).status, 200)
  assert.match(callsOf(provider).at(-1)?.body ?? '', /\[REDACTED\]/)
  assert.ok(callsOf(service).at(-1)?.path.endsWith('/check/beta/litellm_basic_guardrail_api'))
  const calls = callsOf(provider).length
  for (const texts of [[], ['a', 'b']]) {
    answer(texts)
    assert.equal((await send('my ssn is 456')).status, 503)
  }
  service.play(() => json({ action: 'BLOCKED', blocked_reason: 'it has the number 456' }))
  const blocked = await send('my ssn is 456')
  assert.equal(blocked.status, 400)
  assert.ok(!blocked.text.includes('456'))
  assert.equal(callsOf(provider).length, calls)
})

// ── Credentials and destinations ────────────────────────────────────────────────────────────────────────────────────

test('guard services: requests are signed, have the headers of the operator, and none of the client', async () => {
  const secret = `whsec_${Buffer.from('a secret of 24 bytes or so').toString('base64')}`
  const credential = `Bearer ${randomText()}`
  const { gateway, watch, service } = await given({ service: { secret, headers: { Authorization: credential } } })
  await watch.post(PATHS.chat, bodyOf('chat', 'hello'), {
    'x-steered': 'yes',
    cookie: 'a=b',
    'x-forwarded-host': 'evil',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  })
  const [call] = callsOf(service)
  assert.ok(call)
  const { headers, body } = call
  const id = String(headers['webhook-id'])
  const timestamp = String(headers['webhook-timestamp'])
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  assert.equal(headers['webhook-signature'], `v1,${expected}`)
  assert.equal(JSON.parse(body).id, id)
  assert.equal(headers.authorization, credential)
  assert.deepEqual(Object.keys(headers).toSorted(), [
    ...['accept', 'accept-encoding', 'authorization', 'connection', 'content-length', 'content-type', 'host'],
    ...['user-agent', 'webhook-id', 'webhook-signature', 'webhook-timestamp'],
  ])
  service.play(() => json({ action: 'allow' }, 500))
  await watch.post(PATHS.chat, bodyOf('chat', 'hello'))
  await gateway.logged()
  const secrets = [secret, credential.slice('Bearer '.length)]
  await watch.assertClean(secrets.map((value) => ({ name: 'guard', value, isKey: false })))
})

test('guard services: Bedrock receives a signed request', async () => {
  const secret = 'secret/canary+aws0123456789'
  const { watch, service } = await given(
    { service: { kind: 'bedrock', guardrail: 'gr1abc', version: '3', region: 'eu-west-1' } },
    {},
    {
      AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE000000001',
      AWS_SECRET_ACCESS_KEY: secret,
      AWS_EC2_METADATA_DISABLED: 'true',
      AWS_CONFIG_FILE: '/nonexistent',
      AWS_SHARED_CREDENTIALS_FILE: '/nonexistent',
    },
  )
  service.play(() => json({ action: 'NONE', outputs: [], assessments: [] }))
  const allowed = await watch.post(PATHS.chat, bodyOf('chat', 'hello'))
  assert.equal(allowed.status, 200, allowed.text)
  const [call] = callsOf(service)
  assert.ok(call)
  assert.equal(call.path, '/check/guardrail/gr1abc/version/3/apply')
  const verdict = verify({ method: 'POST', target: call.path, headers: call.headers, body: call.body }, secret)
  assert.deepEqual([verdict?.ok, verdict?.service, verdict?.region], [true, 'bedrock', 'eu-west-1'])
})

test('guard services: no service receives what its facts do not satisfy', async () => {
  const file = { require: { region: ['eu'] }, providers: {} }
  const provider = await on.upstream(repeating)
  const place = { baseUrl: `${provider.url}/v1`, styles: ['chat'], facts: { region: 'eu-de' } }
  for (const [facts, onError, expected] of [
    [undefined, 'block', 503],
    [undefined, 'allow', 503],
    [{ region: 'us' }, 'allow', 503],
    [{ region: 'eu-fr' }, 'block', 200],
  ] as const) {
    const { watch, service } = await given(
      { service: { onError, ...(facts && { facts }) } },
      { ...file, providers: { up: place } },
    )
    const { status, text } = await watch.post(PATHS.chat, bodyOf('chat', 'hello'))
    assert.equal(status, expected, text)
    if (expected === 503) assert.equal(codeIn(text), 'guard_unavailable')
    assert.equal(callsOf(service).length, expected === 200 ? 1 : 0)
  }
})

test('guard services: many requests wait for a slow service at once, and none is lost', async () => {
  const { watch, service, provider } = await given()
  service.play(() => ({ ...ALLOW, after: 300 }))
  const all = await Promise.all(
    Array.from({ length: 40 }, (_, n) => watch.post(PATHS.chat, bodyOf('chat', `hello ${n}`))),
  )
  assert.deepEqual(new Set(all.map(({ status }) => status)), new Set([200]))
  await until('all calls', () => callsOf(provider).length === 40)
  assert.equal(callsOf(service).length, 40)
})

// ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A gateway whose rule asks a service about answers, and a provider with this answer. */
const answering = async (
  rule: { readonly action: string; readonly service?: object },
  answer: (canary: string) => string,
) => {
  const canary = randomText()
  const provider = await on.upstream((request) => answerWith(request, { text: answer(canary) }))
  const service = await on.upstream(() => ALLOW)
  const gateway = await on.gateway({
    providers: { up: { baseUrl: `${provider.url}/v1`, styles: ['chat'] } },
    fallback: 'none',
    keepAlive: { interval: 100 },
    guards: {
      shield: {
        on: ['answer'],
        action: rule.action,
        service: { kind: 'headgate', url: `${service.url}/check`, timeout: 3_000, ...rule.service },
      },
    },
  })
  return { canary, provider, service, gateway, watch: witness(gateway) }
}

/** Blocks or masks a text in all texts. */
const deciding =
  (action: 'block' | 'mask' | 'flag', canary: string): Script =>
  ({ json: body }) => {
    const spans = (body as unknown as { texts: Texts }).texts.flatMap(({ i, text }) => {
      const start = text.indexOf(canary)
      return start === -1 ? [] : [{ i, start, end: start + canary.length, label: 'PERSON' }]
    })
    return json(spans.length === 0 ? { action: 'allow' } : { action, spans })
  }

test('guard services: answers are held, masked and blocked in all styles, whole and streamed', async (context) => {
  const { canary, service, provider, watch } = await answering({ action: 'mask' }, () => '')
  for (const style of STYLES)
    for (const stream of [false, true])
      await context.test(`${style}, stream: ${stream}`, async () => {
        // A text that was blocked is remembered.
        const send = (text = `Ask ${canary} now`) => {
          provider.play((request) => answerWith(request, { text }))
          return watch.post(PATHS[style], { ...bodyOf(style, 'who?'), stream })
        }
        service.play(() => ALLOW)
        const allowed = await send()
        assert.equal(allowed.status, 200)
        assert.ok(joinedText(allowed.text).includes(canary), allowed.text)
        const asked = callsOf(service).at(-1)?.json
        assert.deepEqual([asked?.phase, asked?.final], ['answer', true])
        assert.deepEqual(
          textsIn(service).map(({ text, role }) => [role, text]),
          [['assistant', `Ask ${canary} now`]],
        )

        service.play(deciding('mask', canary))
        const masked = await send()
        assert.equal(masked.status, 200)
        assert.ok(!joinedText(masked.text).includes(canary), masked.text)
        assert.ok(joinedText(masked.text).includes('Ask[PERSON]now'), masked.text)

        service.play(deciding('block', canary))
        const calls = callsOf(provider).length
        const blocked = await send(`Never say ${canary} by ${style}, ${stream}`)
        assert.equal(blocked.status, stream ? 200 : 400)
        assert.match(blocked.text, /Blocked by the rule \\"shield\\"/)
        assert.ok(!joinedText(blocked.text).includes(canary), blocked.text)
        // No other target is tried.
        assert.equal(callsOf(provider).length, calls + 1)
        assert.ok(
          !/"finish_reason":"|"stop_reason":"end|response\.completed|message_stop/.test(blocked.text),
          blocked.text,
        )
      })
})

/** The text of an answer whose pieces are in several events, without blanks. */
const joinedText = (text: string): string =>
  [...text.matchAll(/"(?:text|content|delta)":\s*"((?:[^"\\]|\\.)*)"/g)]
    .map(([, part = '']) => part)
    .join('')
    .replaceAll(' ', '')

test('guard services: an answer is held until the verdict, while keep-alives flow', async () => {
  const { canary, service, gateway, provider } = await answering({ action: 'block' }, (text) => `Ask ${text} now`)
  provider.play((request) => answerWith(request, { text: `Ask ${canary} now` }, { gap: 150 }))
  service.play(() => ({ ...ALLOW, after: 400 }))
  const response = await fetch(gateway.url + PATHS.chat, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...bodyOf('chat', 'who?'), stream: true }),
    signal: AbortSignal.timeout(20_000),
  })
  let text = ''
  let before = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    if (callsOf(service).length === 0) before = text
  }
  assert.match(before, /^:/m)
  assert.ok(!before.includes('"content":"Ask'), before)
  assert.ok(joinedText(text).includes(canary))
  assert.match(text, /data: \[DONE\]\s*$/)
})

test('guard services: an answer that is watched is cut off when something is found', async () => {
  const { canary, service, gateway, provider } = await answering(
    { action: 'block', service: { answers: 'watch' } },
    (text) => text,
  )
  const pieces = Array.from({ length: 40 }, (_, n) => (n === 10 ? ` ${canary} ` : 'lorem ipsum '.repeat(25)))
  provider.play((request) => {
    const chunk = (delta: object, finish: string | null = null) =>
      `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
    if (!request.stream) return answerWith(request, { text: pieces.join('') })
    return {
      do: 'stream',
      headers: { 'content-type': 'text/event-stream' },
      pieces: [...pieces.map((content) => chunk({ content })), chunk({}, 'stop'), 'data: [DONE]\n\n'],
      gap: 40,
    }
  })
  service.play(deciding('block', canary))
  const send = (stream: boolean) => witness(gateway).post(PATHS.chat, { ...bodyOf('chat', 'who?'), stream })
  const cut = await send(true)
  assert.match(cut.text, /Blocked by the rule \\"shield\\"/)
  const received = cut.text.split('lorem ipsum').length
  assert.ok(received > 10 * 25 && received < 39 * 25, String(received))
  assert.ok(!/"finish_reason":"stop"/.test(cut.text))
  const first = callsOf(service)[0]?.json
  assert.equal(first?.final, false)
  // What is found at the very end is an error too, in place of the finish.
  pieces.splice(0, pieces.length, `short ${canary}`)
  const short = await send(true)
  assert.match(short.text, /Blocked by the rule/)
  assert.ok(!/"finish_reason":"stop"/.test(short.text))
  assert.equal((await send(false)).status, 400)
  // A text that was blocked is remembered.
  pieces.splice(0, pieces.length, 'fine')
  const whole = await send(true)
  assert.match(whole.text, /"finish_reason":"stop"[\s\S]*\[DONE\]/)
})

test('guard services: an answer that cannot be checked, by onError', async () => {
  for (const onError of ['block', 'allow'] as const) {
    const { canary, service, watch } = await answering(
      { action: 'block', service: { timeout: 200, onError } },
      (text) => text,
    )
    for (const act of [{ do: 'hang' }, json({ action: 'allow' }, 500), json({})] as const)
      for (const stream of [false, true]) {
        service.play(() => act)
        const { status, text, headers } = await watch.post(PATHS.chat, { ...bodyOf('chat', 'who?'), stream })
        assert.equal(joinedText(text).includes(canary), onError === 'allow', text)
        if (onError === 'block') assert.equal(codeIn(text), 'guard_unavailable', text)
        if (onError === 'block' && !stream) assert.deepEqual([status, headers.get('retry-after')], [503, '2'])
        service.play(() => ALLOW)
        assert.equal((await watch.post(PATHS.chat, bodyOf('chat', 'x'))).status, 200)
      }
  }
})

test('guard services: a client that leaves while an answer is held ends the call', async () => {
  const { service, gateway } = await answering({ action: 'block' }, (text) => text)
  service.play(() => ({ ...ALLOW, after: 600 }))
  for (const stream of [false, true]) {
    const left = fetch(gateway.url + PATHS.chat, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...bodyOf('chat', 'who?'), stream }),
      signal: AbortSignal.timeout(300),
    }).then((response) => response.text())
    await assert.rejects(left)
  }
  await until('an idle gateway', () => callsOf(service).length === 2)
  await new Promise((resolve) => setTimeout(resolve, 800))
  const { text } = await witness(gateway).ask('/metrics')
  assert.match(text, /headgate_in_flight(?:_requests)? 0\n|headgate_in_flight\{?[^\n]*\}? 0\n/)
})
