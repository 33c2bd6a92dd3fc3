/**
 * Large whole answers of one client that complete together: another client is served meanwhile, and memory stays
 * bounded.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { gauge, settles } from './support/gauges.ts'
import { bodyFor, stage } from './support/stage.ts'

const MEGABYTE = 1_048_576
const COUNT = 24
const LETTERS = 4 * MEGABYTE
const LIMIT = 32

const PATHS = { chat: '/v1/chat/completions', messages: '/v1/messages', responses: '/v1/responses' } as const

/** Counts a body's bytes as they arrive, so that this process does little work. */
const sizeOf = async (response: Response): Promise<number> => {
  let size = 0
  for await (const part of response.body ?? []) size += part.length
  return size
}

describe('large answers', () => {
  const on = stage()

  for (const style of ['chat', 'messages', 'responses'] as const)
    test(`${COUNT} answers of 4 MB to one client complete together: another client is served meanwhile (${style})`, async (t) => {
      let release = () => {}
      const request = new Set<number>()
      const all = new Promise<void>((resolve) => {
        release = resolve
      })
      const upstream = await on.upstream(async (call) => {
        if (!call.body.includes('much')) return answerWith(call, { text: 'quick' })
        if (request.add(call.number).size === COUNT) release()
        await all
        return answerWith(call, { text: 'w'.repeat(LETTERS) })
      })
      const gateway = await on.gateway(
        { limit: { bufferedMegabytes: LIMIT }, providers: { a: { baseUrl: `${upstream.url}/v1`, styles: ['chat'] } } },
        { AUTH_KEYS: 'greedy-key-0001,patient-key-0002' },
      )
      const call = (key: string, path: string, body: object) =>
        fetch(`${gateway.url}${path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
      const greedy = {
        model: 'm',
        ...(style === 'responses' ? { input: 'much' } : { messages: [{ role: 'user', content: 'much' }] }),
        ...(style === 'messages' && { max_tokens: 100 }),
      }
      let open = COUNT
      const large = Array.from({ length: COUNT }, async () => {
        const response = await call('greedy-key-0001', PATHS[style], greedy)
        // A broken answer counts as size 0.
        const size = await sizeOf(response).catch(() => 0)
        open--
        return { status: response.status, whole: size > LETTERS }
      })
      await Promise.race([all, ...large])
      let highest = 0
      /** How many large answers were unfinished whenever a small one had arrived. */
      const left: number[] = []
      while (open > 0) {
        const response = await call('patient-key-0002', PATHS.chat, bodyFor('chat', 'm', false))
        assert.equal(response.status, 200, await response.text())
        left.push(open)
        highest = Math.max(highest, await gauge(gateway, 'headgate_buffered_bytes'))
      }
      const answers = await Promise.all(large)
      t.diagnostic(`${left.length} small answers; at most ${(highest / MEGABYTE).toFixed(1)} MB buffered`)
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
      assert.ok(answers.every(({ whole }) => whole))
      const between = left.filter((one) => one > 0)
      assert.ok(between.length >= 3, `small answers came when so many large ones were left: ${left.join(', ')}`)
      assert.ok((left[0] ?? 0) > COUNT / 2, `before the first small answer ${COUNT - (left[0] ?? 0)} large ones`)
      assert.ok(highest <= LIMIT * MEGABYTE, `${highest} bytes were held`)
      const held = () => gauge(gateway, 'headgate_buffered_bytes')
      assert.equal(await settles(held, (bytes) => bytes === 0), 0)
      assert.equal(gateway.lines().filter(({ event }) => event === 'unread_ended').length, 0)
    })
})
