import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loaded } from '../../../test/support/config.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { GuardRule } from '../../core/guard.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'
import { serviceRules } from './service-rules.ts'

const ruleIn = (rule: string): GuardRule => {
  const [one] = loaded({ env: {}, yaml: `guards: { pii: { action: block, ${rule} } }` }).config.guards ?? []
  assert.ok(one)
  return one
}
const asking = (url: string): GuardRule => ruleIn(`service: { kind: litellm, url: "${url}" }`)
const REQUEST = { phase: 'request', final: true } as const
const CALL = {
  ...{ id: 'req_1', client: ANONYMOUS, style: 'chat', headers: () => undefined, note: () => {} },
  plan: { by: 'route', route: 'fast', candidates: [], skipped: [] },
} as const

/** A service that allows everything. */
const given = () => {
  const calls: UpstreamCall[] = []
  const errors: string[] = []
  const dial: Dial = (call, listener) => {
    calls.push(call)
    queueMicrotask(() => {
      listener.onHeaders(200, () => undefined)
      listener.onBody(Buffer.from('{"action":"NONE"}'))
      listener.onEnd()
    })
    return { abort: () => {}, resume: () => {} }
  }
  const clock = { now: () => 0, date: () => 0, turn: (run: () => void) => run() }
  return { calls, errors, of: serviceRules({ dial, ...clock, onError: ({ reason }) => errors.push(reason) }) }
}
const texts = (...all: readonly string[]) => all.map((text) => ({ text, role: 'user', kind: 'text' as const }))

test('service rules: a rule without a service is not asked', () => {
  assert.equal(given().of(ruleIn('find: [ email ]')), null)
})

test('service rules: the path follows the address, unless it has it already', async () => {
  const path = '/beta/litellm_basic_guardrail_api'
  for (const [url, expected] of [
    ['http://g:1', `http://g:1${path}`],
    ['http://g:1/', `http://g:1${path}`],
    ['http://g:1/a/', `http://g:1/a${path}`],
    [`http://g:1${path}`, `http://g:1${path}`],
    [`http://g:1${path}/`, `http://g:1${path}`],
  ] as const) {
    const { calls, errors, of } = given()
    assert.deepEqual(await of(asking(url))?.(texts('hello'), CALL, REQUEST), { verdict: null })
    assert.deepEqual([calls.map((call) => call.url), errors], [[expected], []])
  }
})

test('service rules: texts without letters are not sent, and large ones are written in turns', async () => {
  const { calls, of } = given()
  const ask = of(asking('http://g'))
  await ask?.(texts('', ' \n'), CALL, REQUEST)
  assert.equal(calls.length, 0)
  const large = 'lorem "ipsum" '.repeat(50_000)
  await ask?.(texts(large, 'x'), CALL, REQUEST)
  assert.deepEqual(JSON.parse(String(calls[0]?.body)).texts, [large, 'x'])
})
