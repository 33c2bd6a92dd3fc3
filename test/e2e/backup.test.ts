/** A backup of a running gateway, restored on an empty machine: the same keys work, and every sum is the same. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { post, type Started, start } from './support/process.ts'
import { stage } from './support/stage.ts'
import { checkStoredUsage, storedUsage, untilStored } from './support/stored-usage.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'admin-0123456789abcdef'
const CALLS = 40
/** 100 tokens of input at $10 and 100 of output at $40 per million, in dollars. */
const COST = 0.005

const on = stage()

for (const workers of [0, 2])
  test(`backup: ${workers === 0 ? 'one process' : `${workers} workers`}: restored elsewhere, keys work and sums are the same`, async () => {
    const place = mkdtempSync(join(tmpdir(), 'headgate-backup-'))
    const data = join(place, 'data')
    const moved = join(place, 'moved')
    const file = join(place, 'b.tar.gz')
    const upstream = await on.upstream((call) => answerWith(call, { text: 'x', input: 100, output: 100 }))
    const env = {
      AUTH_ADMIN: ADMIN,
      OPENAI_API_KEY: 'sk-0123456789',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      OPENAI_MODELS: 'm',
      ...(workers > 0 && { WORKERS: String(workers) }),
    }
    const begin = async (folder: string) => {
      const prices = 'prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]\n'
      return start({ env: { ...env, DATA_DIR: folder }, files: { 'headgate.yaml': prices } })
    }
    const admin = async ({ url }: Started, path: string, body?: object) => {
      const response = await fetch(`${url}/admin/api/v1${path}`, {
        headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json', connection: 'close' },
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
      })
      const text = await response.text()
      assert.ok(response.ok, text)
      return JSON.parse(text)
    }
    const ask = async ({ base }: Started, key: string) => {
      const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
      return (await post(`${base}/chat/completions`, body, { authorization: `Bearer ${key}`, connection: 'close' }))
        .status
    }
    /** What an operator sees of usage, budgets, keys and the audit log. */
    const shown = async (gateway: Started, days: string) => ({
      usage: await admin(gateway, `/usage?by=key&by=model&bucket=day&${days}`),
      budgets: (await admin(gateway, '/budgets')).data.map(
        ({ id, now }: { id: string; now: { spent: string; remaining: string } }) => [id, now.spent, now.remaining],
      ),
      keys: (await admin(gateway, '/keys')).data.map(({ id, status, last4 }: Record<string, string>) => [
        id,
        status,
        last4,
      ]),
      requests: (await admin(gateway, `/requests?limit=200&${days}`)).data.map(
        ({ id, cost }: Record<string, string>) => [id, cost],
      ),
    })
    try {
      await using gateway = await begin(data)
      await admin(gateway, '/budgets', { name: 'all', amount: '10.00', period: 'total' })
      const key: string = (await admin(gateway, '/keys', { name: 'prod' })).secret
      const { id } = (await admin(gateway, '/budgets')).data[0]
      const statuses = await Promise.all(Array.from({ length: CALLS }, () => ask(gateway, key)))
      // Until a worker knows the new key it refuses it.
      const served = statuses.filter((status) => status === 200).length
      await untilStored(data, 'every call', ({ attempts, openCalls }) => attempts.length === served && openCalls === 0)
      await admin(gateway, `/budgets/${encodeURIComponent(id)}/adjust`, { amount: '1.25', reason: 'test' })
      const [from, to] = [Date.now() - 86_400_000, Date.now() + 86_400_000].map((at) => new Date(at).toISOString())
      const days = `from=${from}&to=${to}`
      const before = await shown(gateway, days)
      assert.deepEqual(before.budgets, [
        [id, (served * COST + 1.25).toFixed(9), (10 - served * COST - 1.25).toFixed(9)],
      ])
      const backup = await verb(['backup', file], { env: { ...env, DATA_DIR: data } })
      assert.equal(backup.code, 0, backup.stderr)
      // What happens later is not part of it.
      assert.equal(await ask(gateway, key), 200)
      assert.equal(await gateway.stop(), 0)

      const restored = await verb(['restore', file], { env: { ...env, DATA_DIR: moved } })
      assert.equal(restored.code, 0, restored.stderr)
      await using other = await begin(moved)
      assert.deepEqual(await shown(other, days), before)
      assert.equal(storedUsage(moved).attempts.length, served)
      assert.equal(checkStoredUsage(moved), Math.round(served * COST * 1e9))
      assert.equal(await ask(other, key), 200)
      assert.equal(await ask(other, 'hgk_wrong'), 401)
      assert.equal(await other.stop(), 0)
      assert.equal(storedUsage(moved).attempts.length, served + 1)
      const audit = await verb(['audit', 'verify'], { env: { ...env, DATA_DIR: moved, PORT: '1' } })
      assert.deepEqual([audit.code, /^ok, \d+ entries checked\n$/.test(audit.stdout)], [0, true], audit.stdout)
    } finally {
      rmSync(place, { recursive: true, force: true })
    }
  })
