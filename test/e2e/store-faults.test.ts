/**
 * The response store on a disk that fails: locked by another process, full, deleted, replaced, read-only. In every case an
 * answer states `store: true` only if it can be retrieved after a crash, other requests are served, `/health` shows the
 * reason, and the store recovers without a restart. An answer that states `store: false` may be stored late.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, describe, test } from 'node:test'
import { text } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { eventsIn, sleep } from './support/stage.ts'

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

/** A folder for the database inside a folder of its own. */
const dataFolder = (): string => {
  const parent = mkdtempSync(join(tmpdir(), 'headgate-disk-'))
  closers.push(() => rmSync(parent, { recursive: true, force: true }))
  return join(parent, 'data')
}

/** A request with the word `held` is answered after this. */
let answerHeld: Promise<void> = Promise.resolve()

/** The length of the answer in words, as stated in the request. */
const upstream = await startUpstream(async (request) => {
  if (request.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
  if (request.body.includes('held')) await answerHeld
  return answerWith(request, { text: 'answer '.repeat(Number(/size=(\d+)/.exec(request.body)?.[1] ?? 1)) })
})
closers.push(() => upstream.close())

const begin = async (folder: string): Promise<Started> => {
  const gateway = await start({
    env: {
      OPENAI_API_KEY: 'sk-0123456789',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      OPENAI_MODELS: 'm',
      OPENAI_STYLES: 'chat',
      DATA_DIR: folder,
    },
  })
  closers.push(() => gateway.stop())
  return gateway
}

const kill = async (gateway: Started): Promise<void> => {
  gateway.child.kill('SIGKILL')
  await gateway.stop()
}

type Answered = { readonly id: string; readonly store: boolean }

/** Requests a whole answer, or a stream, whose last event states whether it was stored. */
const ask = async (gateway: Started, size = 1, stream = false): Promise<Answered> => {
  const answer = await post(`${gateway.base}/responses`, { model: 'm', input: `size=${size}`, stream })
  assert.equal(answer.status, 200, answer.text)
  if (!stream) return answer.json()
  const last = eventsIn(answer.text).at(-1) as { type: string; response: Answered }
  assert.equal(last.type, 'response.completed')
  return last.response
}

const retrieve = async (gateway: Started, id: string): Promise<number> => {
  const response = await fetch(`${gateway.base}/responses/${id}`)
  await response.arrayBuffer()
  return response.status
}

type Health = { status: string; problems?: { component: string; reason: string; since: string }[] }
const healthOf = async (gateway: Started): Promise<Health> => {
  const response = await fetch(`${gateway.url}/health`)
  assert.equal(response.status, 200)
  return (await response.json()) as Health
}

/** Waits until `/health` has this status. */
const health = async (gateway: Started, status: string): Promise<Health> => {
  for (const end = performance.now() + 120_000; ; await sleep(50)) {
    const found = await healthOf(gateway)
    if (found.status === status) return found
    assert.ok(performance.now() < end, `/health is not ${status}: ${JSON.stringify(found)}`)
  }
}

const storeReason = ({ problems = [] }: Health): string =>
  problems.find(({ component }) => component === 'store')?.reason ?? ''

/** Each answer that states `store: true` can be retrieved. */
const assertHonest = async (gateway: Started, answers: readonly Answered[]): Promise<void> => {
  for (const { id, store } of answers) if (store) assert.deepEqual([id, await retrieve(gateway, id)], [id, 200])
}

/** Waits until an answer that was stored late can be retrieved. */
const untilKept = async (gateway: Started, { id }: Answered): Promise<void> => {
  for (const end = performance.now() + 120_000; (await retrieve(gateway, id)) !== 200; await sleep(20))
    assert.ok(performance.now() < end, 'the late answer is not stored')
}

/** Sends requests until an answer is stored, as after a recovery. */
const untilStored = async (gateway: Started): Promise<Answered> => {
  for (const end = performance.now() + 120_000; ; await sleep(50)) {
    const answer = await ask(gateway)
    if (answer.store) return answer
    assert.ok(performance.now() < end, 'the store did not recover')
  }
}

const background = (gateway: Started) => post(`${gateway.base}/responses`, { model: 'm', input: 'x', background: true })

const assertRefusedBackground = async (gateway: Started, reason: RegExp): Promise<void> => {
  const refused = await background(gateway)
  assert.equal(refused.status, 503, refused.text)
  assert.equal(refused.json().error.code, 'storage_unavailable')
  assert.match(refused.json().error.message, reason)
  assert.equal(refused.headers.get('x-should-retry'), 'true')
  assert.ok(Number(refused.headers.get('retry-after')) > 0)
}

/** The log has one line when the store begins to fail and one when it works again, however many requests there were. */
const assertOneLineAtEachChange = async (gateway: Started): Promise<void> => {
  const lines = (await gateway.logged()).filter(({ event }) => event === 'store')
  assert.ok(lines.length > 0)
  assert.deepEqual(
    lines.map(({ level, status }) => [level, status]),
    lines.map((_, at) => (at % 2 === 0 ? ['error', 'degraded'] : ['info', 'ok'])),
  )
}

const gauge = async (gateway: Started, name: string): Promise<number> => {
  const page = await (await fetch(`${gateway.url}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(page)?.[1])
}

describe('a locked database', () => {
  test('fails no request, and unstored answers state it', async () => {
    const folder = dataFolder()
    const gateway = await begin(folder)
    const before = await untilStored(gateway)
    const other = new DatabaseSync(join(folder, 'responses.db'))
    closers.push(() => other.close())
    other.exec('BEGIN IMMEDIATE')
    const answers: Answered[] = []
    let overtaken = 0
    for (let round = 0; round < 2; round++) {
      let waits = true
      const request = ask(gateway, 1, round % 2 === 1).then((answer) => {
        waits = false
        answers.push(answer)
      })
      // While the answer waits for its write, others are served.
      for (; waits; await sleep(1)) {
        const live = await fetch(`${gateway.url}/health/live`)
        assert.equal(live.status, 200)
        if (waits) overtaken++
      }
      await request
    }
    assert.deepEqual(
      answers.map(({ store }) => store),
      [false, false],
    )
    // A thread that blocked the event loop would let none pass; the answer is written when the loop runs again.
    assert.ok(overtaken > 10, `${overtaken} requests were served while an answer waited for the lock`)
    await assertRefusedBackground(gateway, /locked/)
    const degraded = await healthOf(gateway)
    assert.equal(degraded.status, 'degraded')
    assert.match(storeReason(degraded), /locked/)
    assert.equal(await gauge(gateway, 'headgate_store_ok'), 0)
    // A lock for writing does not block reads.
    await assertHonest(gateway, [before, ...answers])
    other.exec('COMMIT')
    await health(gateway, 'ok')
    for (const answer of answers) await untilKept(gateway, answer)
    const [late] = answers
    const next = await post(`${gateway.base}/responses`, { model: 'm', input: 'x', previous_response_id: late?.id })
    assert.equal(next.status, 200, next.text)
    const after = await untilStored(gateway)
    await assertHonest(gateway, [before, next.json(), after])
    assert.equal(await gauge(gateway, 'headgate_store_ok'), 1)
    await assertOneLineAtEachChange(gateway)
    await kill(gateway)
    const again = await begin(folder)
    await assertHonest(again, [before, next.json(), after])
    for (const { id } of answers) assert.equal(await retrieve(again, id), 200)
  })

  test('while a background response ends: the shutdown stores it once the lock is released', async () => {
    const folder = dataFolder()
    const gateway = await begin(folder)
    await untilStored(gateway)
    const other = new DatabaseSync(join(folder, 'responses.db'))
    closers.push(() => other.close())
    const held = Promise.withResolvers<void>()
    answerHeld = held.promise
    const accepted = await post(`${gateway.base}/responses`, { model: 'm', input: 'held', background: true })
    assert.equal(accepted.status, 200, accepted.text)
    const { id } = accepted.json()
    const statusOf = async (at: Started): Promise<string> =>
      ((await (await fetch(`${at.base}/responses/${id}`)).json()) as { status: string }).status
    other.exec('BEGIN IMMEDIATE')
    held.resolve()
    for (const end = performance.now() + 120_000; (await statusOf(gateway)) !== 'completed'; await sleep(20))
      assert.ok(performance.now() < end, 'the answer is shown before it is stored')
    // The write is tried again after 1 s and 2 s, and then after 4 s.
    await sleep(4_000)
    other.exec('COMMIT')
    assert.equal(await gateway.stop(), 0)
    assert.equal(await statusOf(await begin(folder)), 'completed')
  })

  test('before the gateway starts: it serves, and stores when the lock is released', async () => {
    const folder = dataFolder()
    const first = await begin(folder)
    const before = await untilStored(first)
    const other = new DatabaseSync(join(folder, 'responses.db'))
    closers.push(() => other.close())
    other.exec('BEGIN IMMEDIATE')
    await kill(first)
    const gateway = await begin(folder)
    const answers = [await ask(gateway), await ask(gateway, 1, true)]
    assert.deepEqual(
      answers.map(({ store }) => store),
      [false, false],
    )
    assert.match(storeReason(await healthOf(gateway)), /locked/)
    await assertHonest(gateway, [before, ...answers])
    other.exec('COMMIT')
    answers.push(await untilStored(gateway))
    await health(gateway, 'ok')
    await assertHonest(gateway, [before, ...answers])
  })

  test('for a moment loses nothing', async () => {
    const folder = dataFolder()
    const gateway = await begin(folder)
    await untilStored(gateway)
    const other = new DatabaseSync(join(folder, 'responses.db'))
    closers.push(() => other.close())
    const answers: Answered[] = []
    for (let round = 0; round < 20; round++) {
      other.exec('BEGIN IMMEDIATE')
      const request = Promise.all([ask(gateway), ask(gateway, 1, true), ask(gateway)])
      await sleep(5)
      other.exec('COMMIT')
      answers.push(...(await request))
    }
    await assertHonest(gateway, answers)
    assert.ok(answers.some(({ store }) => store))
  })
})

// ── Mounts ───────────────────────────────────────────────────────────────────────────────────────────────────────

const run = (command: string, ...args: string[]) => spawnSync(command, args, { encoding: 'utf8' })

const mount = (folder: string, options: string): void => {
  const { status, stderr } = run('mount', '-t', 'tmpfs', '-o', options, 'tmpfs', folder)
  assert.equal(status, 0, stderr)
  // Lazily: an open file of a process does not prevent it.
  closers.push(() => run('umount', '-l', folder))
}

const mountable = (): string | false => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-mount-'))
  try {
    const { status, stderr, error } = run('mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder)
    if (status !== 0) return `a file system cannot be mounted here: ${(stderr || String(error)).trim()}`
    run('umount', '-l', folder)
    return false
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
const skip = mountable()

describe('a full disk', () => {
  test('is reported, and answers that state it are stored', { skip }, async () => {
    const folder = dataFolder()
    mkdirSync(folder)
    mount(folder, 'size=2m,mode=0700')
    const gateway = await begin(folder)
    const answers: Answered[] = []
    for (let round = 0; round < 17; round++)
      answers.push(...(await Promise.all([0, 1, 2, 3].map((at) => ask(gateway, at === 3 ? 1 : 10_000, at % 2 === 1)))))
    assert.ok(answers.some(({ store }) => store) && answers.some(({ store }) => !store))
    assert.equal((await ask(gateway, 100_000)).store, false)
    const degraded = await healthOf(gateway)
    assert.equal(degraded.status, 'degraded')
    assert.match(storeReason(degraded), /full/)
    await assertHonest(gateway, answers)
    await kill(gateway)
    const again = await begin(folder)
    await assertHonest(again, answers)
    run('mount', '-o', 'remount,size=64m', folder)
    answers.push(await untilStored(again), await ask(again, 100_000))
    await health(again, 'ok')
    await assertHonest(again, answers)
  })

  test('rejects background requests until there is room', { skip }, async () => {
    const folder = dataFolder()
    mkdirSync(folder)
    mount(folder, 'size=2m,mode=0700')
    const gateway = await begin(folder)
    writeFileSync(join(folder, 'others'), Buffer.alloc(4 * 1_048_576).subarray(0, 1_048_576))
    const filler = join(folder, 'more')
    // Fills the remaining space to the last byte.
    assert.throws(() => writeFileSync(filler, Buffer.alloc(4 * 1_048_576)), /ENOSPC/)
    await assertRefusedBackground(gateway, /full|disk/)
    assert.equal((await ask(gateway)).store, false)
    await health(gateway, 'degraded')
    rmSync(filler)
    await health(gateway, 'ok')
    const accepted = await background(gateway)
    assert.equal(accepted.status, 200, accepted.text)
    await assertOneLineAtEachChange(gateway)
  })
})

describe('a data folder', () => {
  test('deleted while the gateway runs is created again, and later answers survive a crash', async () => {
    const folder = dataFolder()
    const gateway = await begin(folder)
    const lost = await untilStored(gateway)
    rmSync(folder, { recursive: true })
    const answers = await Promise.all([ask(gateway), ask(gateway, 1, true), ask(gateway)])
    answers.push(await untilStored(gateway))
    assert.ok(existsSync(join(folder, 'responses.db')))
    await assertHonest(gateway, [...answers, { ...lost, store: false }])
    const lines = (await gateway.logged()).filter(({ event }) => event === 'store')
    assert.equal(lines.filter(({ status }) => status === 'recreated').length, 1, JSON.stringify(lines))
    await kill(gateway)
    await assertHonest(await begin(folder), answers)
  })

  test('replaced by a file stores nothing and reports it, until it is restored', async () => {
    const folder = dataFolder()
    const gateway = await begin(folder)
    const before = await untilStored(gateway)
    renameSync(folder, `${folder}-moved`)
    writeFileSync(folder, '')
    const answers = [await ask(gateway), await ask(gateway, 1, true)]
    assert.deepEqual(
      answers.map(({ store }) => store),
      [false, false],
    )
    await assertRefusedBackground(gateway, /DATA_DIR/)
    const degraded = await healthOf(gateway)
    assert.equal(degraded.status, 'degraded')
    // The page is public, so it shows no path.
    assert.ok(storeReason(degraded) !== '' && !JSON.stringify(degraded).includes(folder), JSON.stringify(degraded))
    rmSync(folder)
    renameSync(`${folder}-moved`, folder)
    answers.push(before, await untilStored(gateway))
    await health(gateway, 'ok')
    await assertHonest(gateway, answers)
    await kill(gateway)
    await assertHonest(await begin(folder), answers)
  })

  test('that becomes read-only stores nothing and reports it, until it is writable', { skip }, async () => {
    const folder = dataFolder()
    const gateway = await begin(folder)
    const before = await untilStored(gateway)
    const { status, stderr } = run('mount', '-t', 'tmpfs', '-o', 'ro', 'tmpfs', folder)
    assert.equal(status, 0, stderr)
    closers.push(() => run('umount', '-l', folder))
    const answers = [await ask(gateway), await ask(gateway, 1, true)]
    assert.deepEqual(
      answers.map(({ store }) => store),
      [false, false],
    )
    await assertRefusedBackground(gateway, /read-?only|EROFS|unable to open/i)
    assert.equal((await healthOf(gateway)).status, 'degraded')
    assert.equal(run('umount', '-l', folder).status, 0)
    answers.push(await untilStored(gateway))
    await health(gateway, 'ok')
    await assertHonest(gateway, [before, ...answers])
    await assertOneLineAtEachChange(gateway)
  })

  const asRoot = process.getuid?.() === 0 && 'root writes into folders without permission'
  test('without write permission stores nothing and reports it, until it is granted', { skip: asRoot }, async () => {
    const folder = dataFolder()
    mkdirSync(folder, { mode: 0o500 })
    const gateway = await begin(folder)
    const refused = await ask(gateway)
    assert.equal(refused.store, false)
    await health(gateway, 'degraded')
    chmodSync(folder, 0o700)
    const stored = await untilStored(gateway)
    await assertHonest(gateway, [refused, stored])
    await health(gateway, 'ok')
  })
})

test('answers of processes that share a database are stored if they state it', async () => {
  const folder = dataFolder()
  const gateways = await Promise.all([begin(folder), begin(folder), begin(folder)])
  const answers = await Promise.all(
    Array.from({ length: 150 }, (_, at) => ask(gateways[at % 3] as Started, 1 + (at % 7) * 200, at % 2 === 1)),
  )
  const [first] = gateways
  assert.ok(first)
  await assertHonest(first, answers)
  for (const gateway of gateways) await kill(gateway)
  const again = await begin(folder)
  await assertHonest(again, answers)
  assert.ok(answers.filter(({ store }) => store).length > 75, 'most are stored')
  const { id } = answers.find(({ store }) => store) as Answered
  const next = await post(`${again.base}/responses`, { model: 'm', input: 'next', previous_response_id: id })
  assert.equal(text(next.json().previous_response_id), id)
})
