/** Gateways that share Postgres list each other's outages of providers, in the API and on the command line. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isObject, type JsonObject, list, parseObject } from '../../src/core/json.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { startUpstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'admin-0123456789abcdefghijkl'
const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

describe('shared incidents', { skip: skipPostgres }, () => {
  test('an outage that one gateway has is listed by the other, and one that both have is one with both names', {
    timeout: 300_000,
  }, async () => {
    const server = await startPostgres()
    closers.push(() => server.remove())
    const upstream = await startUpstream(() => ({ do: 'answer', status: 503, body: { error: { message: 'down' } } }))
    closers.push(() => upstream.close())
    const begin = async (): Promise<Started> => {
      const gateway = await start({
        env: {
          DATABASE_URL: server.url,
          AUTH_ADMIN: ADMIN,
          AUTH_REQUIRED: 'false',
          OPENAI_API_KEY: 'sk-openai-0123456789',
          OPENAI_BASE_URL: `${upstream.url}/v1`,
          OPENAI_MODELS: 'm,n',
          CIRCUIT_MIN_REQUESTS: '1',
          CIRCUIT_CONSECUTIVE_FAILURES: '2',
          RETRY_MAX_ATTEMPTS: '1',
        },
      })
      closers.push(() => gateway.stop())
      while ((await fetch(`${gateway.url}/health/ready`)).status !== 200) await sleep(100)
      return gateway
    }
    const [one, other] = [await begin(), await begin()]
    const fail = async ({ base }: Started, model: string) => {
      for (let n = 0; n < 4; n++)
        await post(`${base}/chat/completions`, { model: `openai/${model}`, messages: [{ role: 'user', content: 'x' }] })
    }
    const incidentsOf = async ({ url }: Started): Promise<readonly JsonObject[]> => {
      const answer = await fetch(`${url}/admin/api/v1/incidents`, { headers: { authorization: `Bearer ${ADMIN}` } })
      const page = parseObject(await answer.text())
      assert.equal(page?.missing, null, JSON.stringify(page))
      return list(page?.data).filter(isObject)
    }
    const until = async (gateway: Started, holds: (found: readonly JsonObject[]) => boolean) => {
      for (const end = performance.now() + 120_000; ; await sleep(100)) {
        const found = await incidentsOf(gateway)
        if (holds(found)) return found
        assert.ok(performance.now() < end, JSON.stringify(found))
      }
    }
    await fail(one, 'm')
    const [own] = await until(one, (found) => found.length === 1 && list(found[0]?.nodes).length === 1)
    const [seen] = await until(other, (found) => found.length === 1)
    assert.deepEqual([seen?.id, seen?.nodes, seen?.end], [own?.id, own?.nodes, null])
    const printed = await verb(['incidents'], { env: { HEADGATE_URL: other.url, HEADGATE_ADMIN_TOKEN: ADMIN } })
    assert.match(printed.stdout, /^openai .*lasts/m, printed.stderr)
    assert.ok(printed.stdout.includes(String(list(own?.nodes)[0])), printed.stdout)
    await fail(other, 'n')
    const [both] = await until(one, (found) => list(found[0]?.nodes).length === 2)
    assert.ok(Number(both?.lost) >= 2, JSON.stringify(both))
    assert.deepEqual(list(both?.models).toSorted(), ['m', 'n'])
    // A killed one does not leave an outage that never ends.
    const exited = new Promise((resolve) => other.child.once('exit', resolve))
    await one.stop()
    const [left] = await until(other, (found) => found.length === 1)
    assert.equal(left?.end, null, 'the other gateway still has it')
    other.child.kill('SIGKILL')
    await exited
  })
})
