import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { QueriedThread } from './queried-thread.ts'

type Sent = { readonly do: 'echo' | 'ignore' | 'crash' | 'close'; readonly number?: number }
type Received = { readonly number: number; readonly value: number } | { readonly started: number }

const CODE = `
  import { parentPort, workerData } from 'node:worker_threads'
  parentPort.postMessage({ started: workerData.start })
  parentPort.on('message', (message) => {
    if (message.do === 'echo') parentPort.postMessage({ number: message.number, value: 10 * message.number })
    if (message.do === 'crash') throw new Error('broken')
    if (message.do === 'close') parentPort.close()
  })`

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const given = () => {
  const messages: number[] = []
  const problems: string[] = []
  let starts = 0
  const thread = new QueriedThread<Sent, Received>({
    file: new URL(`data:text/javascript,${encodeURIComponent(CODE)}`),
    memory: { maxOldGenerationSizeMb: 32 },
    data: () => ({ start: ++starts }),
    onMessage: ({ started }) => messages.push(started),
    onProblem: (problem) => problems.push(problem),
  })
  closers.push(() => thread.close({ do: 'close' }, 1_000))
  const query = (what: Sent['do'], limit = 30_000) => thread.query((number) => ({ do: what, number }), limit)
  return { thread, query, messages, problems }
}
const until = async (is: () => boolean, what: string) => {
  for (const end = performance.now() + 30_000; !is(); await sleep(5)) assert.ok(performance.now() < end, what)
}

test('queried thread: the first query starts it, and each one gets its own result', async () => {
  const { thread, query, messages } = given()
  assert.equal(thread.isRunning, false)
  const results = Promise.all([query('echo'), query('echo'), query('echo')])
  assert.equal(thread.waiting, 3)
  assert.deepEqual(await results, [
    { number: 1, value: 10 },
    { number: 2, value: 20 },
    { number: 3, value: 30 },
  ])
  assert.equal(thread.waiting, 0)
  assert.deepEqual(messages, [1])
})

test('queried thread: a query without a result fails after its limit, and its result is ignored then', async () => {
  const { query } = given()
  // The thread cannot start within this time.
  assert.deepEqual(await query('echo', 1), { problem: 'no result within 0.001 s', sent: true })
  assert.deepEqual(await query('ignore', 50), { problem: 'no result within 0.05 s', sent: true })
  assert.deepEqual(await query('echo'), { number: 3, value: 30 })
})

test('queried thread: it is started again a second after its end, not before', async () => {
  const { thread, query, messages, problems } = given()
  await query('echo')
  const waiting = query('ignore')
  thread.post({ do: 'crash' })
  const result = await waiting
  assert.ok('sent' in result && result.sent)
  assert.match(result.problem, /^its thread has ended/)
  assert.deepEqual(await query('echo'), { problem: result.problem, sent: false })
  assert.deepEqual(problems, [result.problem])
  await until(() => messages.length === 2, 'it is started again')
  assert.deepEqual(messages, [1, 2])
  assert.ok('value' in (await query('echo')))
})

test('queried thread: close ends it and fails the queries that wait', async () => {
  const { thread, query, problems } = given()
  await query('echo')
  const waiting = query('ignore')
  await thread.close({ do: 'ignore' }, 1)
  assert.ok('problem' in (await waiting))
  assert.deepEqual(await query('echo'), { problem: 'the gateway is shutting down', sent: false })
  await until(() => !thread.isRunning, 'it has ended')
  assert.deepEqual(problems, [])
})
