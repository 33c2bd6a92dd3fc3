/** A fault of a replayed answer has the effect of the same fault of a provider. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type Started, start } from './support/process.ts'

const folder = mkdtempSync(join(tmpdir(), 'hg-tape-faults-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const FAULTS = [
  ...['status=429;retry-after=2', 'status=503', 'reset', 'cut@3', 'cut@3#1', 'malformed@2', 'error@2', 'no-done'],
  ...['slow=50', 'stall@2=50', 'cutt@4'],
]

const ask = async ({ url }: Pick<Started, 'url'>, fault: string | null, stream: boolean) => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-headgate-tape': stream ? 'streamed' : 'whole',
      ...(fault !== null && { 'x-headgate-fault': fault }),
    },
    body: JSON.stringify({ model: 'demo/echo', stream, messages: [{ role: 'user', content: 'hello' }] }),
  })
  const text = await response.text()
  return { status: response.status, text, code: /"code":"(\w+)"/.exec(text)?.[1] ?? null }
}

test('tape: faults of replayed answers are those of a provider', async (t) => {
  const tape = { HEADGATE_TAPE_DIR: folder }
  const recorder = await start({ env: { ...tape, HEADGATE_TAPE: 'record' } })
  const whole = await ask(recorder, null, false)
  const streamed = await ask(recorder, null, true)
  await recorder.stop()
  const env = { CIRCUIT_CONSECUTIVE_FAILURES: '0', CIRCUIT_MIN_REQUESTS: '1000000' }
  const replayed = await start({ env: { ...env, ...tape, HEADGATE_TAPE: 'replay' } })
  const live = await start({ env })
  t.after(() => Promise.all([live.stop(), replayed.stop()]))
  assert.deepEqual(await ask(replayed, null, false), whole)
  assert.equal((await ask(replayed, null, true)).text, streamed.text)
  const read = async (path: string) => JSON.parse(await (await fetch(`${replayed.url}/admin/api/v1/${path}`)).text())
  const session = await read('session')
  assert.equal(session.tape, 'replay')
  const state = await read('tape')
  assert.deepEqual([state.mode, state.replayed, state.misses], ['replay', 2, 0])
  assert.deepEqual(
    state.tapes.map(({ name, exchanges, used }: { name: string; exchanges: number; used: number }) => [
      name,
      exchanges,
      used,
    ]),
    [
      ['streamed', 1, 1],
      ['whole', 1, 1],
    ],
  )
  for (const fault of FAULTS)
    for (const stream of [true, false]) {
      const [expected, found] = [await ask(live, fault, stream), await ask(replayed, fault, stream)]
      assert.deepEqual([found.status, found.code], [expected.status, expected.code], `${fault} ${stream}`)
    }
})
