/**
 * The loop brake: agents that send their history with each request, in three API styles, to a model that calls the same tool again
 * and again. They alternate between two gateways that share nothing.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const ADMIN = 'admin-token-0123456789'
const [BLOCKED, NOTED] = ['client-key-0123456789', 'other-key-01234567890']
const YAML = `loops: { action: header }
keys:
  blocked: { secret: "${BLOCKED}", loops: block }
  noted: { secret: "${NOTED}", loops: "off" }
`
const CALL = { id: 'call_1', name: 'bash', arguments: '{"command":"make"}' }
const RESULT = 'make: nothing to be done'

/** How a style sends `turns` calls with their results after a first text, and then another text. */
const STYLES: {
  readonly [path: string]: (turns: number, more: string | null) => object
} = {
  '/v1/chat/completions': (turns, more) => ({
    model: 'gpt-5-mini',
    tools: [{ type: 'function', function: { name: 'bash', parameters: { type: 'object' } } }],
    messages: [
      { role: 'user', content: 'Build it.' },
      ...Array.from({ length: turns }, (_, at) => [
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: `c${at}`, type: 'function', function: { name: 'bash', arguments: CALL.arguments } }],
        },
        { role: 'tool', tool_call_id: `c${at}`, content: `${RESULT} at 10:00:0${at}` },
      ]).flat(),
      ...(more === null ? [] : [{ role: 'user', content: more }]),
    ],
  }),
  '/v1/messages': (turns, more) => ({
    model: 'gpt-5-mini',
    max_tokens: 100,
    tools: [{ name: 'bash', input_schema: { type: 'object' } }],
    messages: [
      { role: 'user', content: 'Build it.' },
      ...Array.from({ length: turns }, (_, at) => [
        { role: 'assistant', content: [{ type: 'tool_use', id: `c${at}`, name: 'bash', input: { command: 'make' } }] },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: `c${at}`, content: RESULT },
            { type: 'text', text: '<system-reminder>Mind the todo list.</system-reminder>' },
          ],
        },
      ]).flat(),
      ...(more === null ? [] : [{ role: 'user', content: more }]),
    ],
  }),
  '/v1/responses': (turns, more) => ({
    model: 'gpt-5-mini',
    tools: [{ type: 'function', name: 'bash', parameters: { type: 'object' } }],
    input: [
      { role: 'user', content: 'Build it.' },
      ...Array.from({ length: turns }, (_, at) => [
        { type: 'function_call', call_id: `c${at}`, name: 'bash', arguments: CALL.arguments },
        { type: 'function_call_output', call_id: `c${at}`, output: RESULT },
      ]).flat(),
      ...(more === null ? [] : [{ role: 'user', content: more }]),
    ],
  }),
}

describe('loops', { concurrency: false }, () => {
  let gateways: readonly Started[] = []
  let upstream: Upstream | null = null
  before(async () => {
    upstream = await startUpstream((request) => answerWith(request, { tools: [CALL], input: 10, output: 5 }))
    const env = { AUTH_ADMIN: ADMIN, OPENAI_API_KEY: 'sk-test-0123456789', OPENAI_BASE_URL: `${upstream.url}/v1` }
    const files = { 'headgate.yaml': YAML }
    gateways = await Promise.all([start({ env, files }), start({ env, files })])
  })
  after(async () => {
    for (const gateway of gateways) await gateway[Symbol.asyncDispose]()
    await upstream?.close()
  })

  let count = 0
  const ask = async (path: string, body: object, { key = BLOCKED, session = 'one' as string | null } = {}) => {
    const gateway = gateways[count++ % gateways.length] ?? assert.fail()
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${key}`,
        ...(session !== null && { 'x-claude-code-session-id': session }),
      },
      body: JSON.stringify(body),
    })
    const { error } = Object(await response.json())
    const { headers, status } = response
    return { status, code: error?.code ?? null, message: error?.message, loop: headers.get('x-headgate-loop'), headers }
  }

  for (const [path, bodyOf] of Object.entries(STYLES))
    test(`loops: stopped after five equal calls, at any gateway, until the user says something else (${path})`, async () => {
      const seen: (readonly [number, string | null])[] = []
      for (let turns = 0; turns <= 5; turns++) {
        const { status, loop } = await ask(path, bodyOf(turns, null))
        seen.push([status, loop])
      }
      assert.deepEqual(seen, [
        [200, null],
        [200, null],
        [200, null],
        [200, 'suspect; repeat=bash; times=3'],
        [200, 'suspect; repeat=bash; times=4'],
        [402, 'loop; repeat=bash; times=5'],
      ])
      const stopped = await ask(path, bodyOf(6, null))
      assert.equal(stopped.headers.get('x-should-retry'), 'false')
      assert.match(stopped.message, /repeats the call `bash` with the same result and was stopped/)
      assert.equal((await ask(path, bodyOf(6, 'Use ninja instead.'))).status, 200)
      assert.equal((await ask(path, bodyOf(6, 'Build it.'))).status, 402)
    })

  test('loops: the turns of a stored conversation count', async () => {
    const tools = [{ type: 'function', name: 'bash', parameters: { type: 'object' } }]
    const [gateway] = gateways
    const turn = async (previous: string | null, input: unknown) => {
      const response = await fetch(`${gateway?.url}/v1/responses`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${BLOCKED}`,
          'x-headgate-session': 'stored',
        },
        body: JSON.stringify({ model: 'gpt-5-mini', tools, input, previous_response_id: previous }),
      })
      const answer = Object(await response.json())
      return { status: response.status, id: answer.id, call: answer.output?.[0]?.call_id }
    }
    let last = await turn(null, 'Build it.')
    const statuses: number[] = []
    for (let count = 1; count <= 5; count++) {
      const next = await turn(last.id, [{ type: 'function_call_output', call_id: last.call, output: RESULT }])
      statuses.push(next.status)
      if (next.status === 200) last = next
    }
    assert.deepEqual(statuses, [200, 200, 200, 200, 402])
  })

  test('loops: without a session that the request names, and with a key that is not stricter, it is only stated', async () => {
    const path = '/v1/chat/completions'
    const body = STYLES[path]?.(6, null) ?? assert.fail()
    for (const given of [{ session: null }, { key: NOTED }]) {
      const { status, loop } = await ask(path, body, given)
      assert.deepEqual([status, loop], [200, 'loop; repeat=bash; times=6'])
    }
  })

  test('loops: they are counted, logged, and in the list of requests', async () => {
    const [gateway] = gateways
    assert.ok(gateway)
    const authorization = `Bearer ${ADMIN}`
    const metrics = await (await fetch(`${gateway.url}/metrics`, { headers: { authorization } })).text()
    assert.match(metrics, /headgate_loops_total\{team="default",detector="repeat",level="loop"\} [1-9]/)
    const lines = await gateway.logged()
    assert.ok(
      lines.some(({ event, detector, stopped }) => event === 'loop' && detector === 'repeat' && stopped === true),
    )
    const list = await fetch(`${gateway.url}/admin/api/v1/requests?code=loop_stopped`, { headers: { authorization } })
    const { data } = Object(await list.json())
    assert.ok(data.length > 0 && data[0].session.startsWith('ses_'))
  })
})
