/**
 * A gateway with something to show on every page: requests with every result, keys, teams and budgets, a failing provider, and
 * foreign texts that try to be markup, are very long, or are written from right to left.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { post, type Started, type StartOptions, start } from '../../e2e/support/process.ts'
import { fileOf } from '../../e2e/support/stage.ts'
import { answerWith, failWith, piecesOf } from '../../support/answers.ts'
import { freePorts } from '../../support/ports.ts'
import { startUpstream } from '../../support/upstream.ts'
import { HOSTILE } from './traffic.ts'

export const ADMIN = 'operator-token-0123456789'
/** Names of records are ASCII: the longest ones. */
export const NAMES = {
  key: `key-with-the-longest-name-that-is-allowed-${'x'.repeat(22)}`,
  team: `team with the longest name that is allowed ${'w'.repeat(21)}`,
  budget: `budget_${'y'.repeat(57)}`,
} as const
/** Text from right to left, and a direction that nothing ends: what follows it must keep its own. */
export const FOREIGN = {
  hostile: HOSTILE,
  turned: '\u202eturned',
  arabic: 'نموذج الإنتاج 7',
  long: `long-${'m'.repeat(150)}`,
} as const

export type Populated = {
  /** The running gateway: another one after `restart`. */
  readonly gateway: Started
  /** The folder of its databases. */
  readonly data: string
  /** Kills the gateway, as the kernel does when memory runs out. */
  readonly kill: () => Promise<void>
  /** Starts the gateway again, with the same address and data. */
  readonly restart: () => Promise<void>
  /** Calls the admin API, and fails unless it succeeds. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
  readonly admin: (method: string, path: string, body?: unknown) => Promise<any>
  /** Sends a chat request with the key of the long name; resolves to its status. */
  readonly ask: (model: string, text?: string) => Promise<number>
  readonly close: () => Promise<void>
}

export const startPopulated = async (env: Readonly<Record<string, string>> = {}): Promise<Populated> => {
  const data = await mkdtemp(join(tmpdir(), 'headgate-populated-'))
  const upstreams = await Promise.all([
    startUpstream((request) =>
      request.body.includes('break')
        ? { do: 'stream', pieces: piecesOf(request, { text: 'It begins and' }).slice(0, 2), ending: 'reset' }
        : answerWith(request, { text: `Answer ${HOSTILE}`, input: 38_000, output: 402 }),
    ),
    startUpstream((request) => failWith(request, 503, { type: 'overloaded_error', message: `Overloaded ${HOSTILE}` })),
  ])
  const [answering, failing] = upstreams.map(({ url }) => `${url}/v1`)
  const close = async () => {
    await Promise.all(upstreams.map((one) => one.close()))
    await rm(data, { recursive: true, force: true })
  }
  const [port = 0] = await freePorts(1)
  const options: StartOptions = {
    env: { AUTH_ADMIN: ADMIN, BODIES_SAMPLE: '1', DATA_DIR: data, PORT: String(port), ...env },
    files: {
      'headgate.yaml': fileOf({
        providers: {
          steady: {
            kind: 'openai',
            baseUrl: answering ?? '',
            models: ['small', ...Object.values(FOREIGN)],
            styles: ['chat'],
          },
          shaky: { baseUrl: failing ?? '', models: ['big'] },
        },
        routes: { 'chat-default': { targets: ['shaky/big', 'steady/small'] } },
        prices: [{ provider: 'steady', model: 'small', perMillion: { input: 1, output: 4 } }],
        unknownModel: 'reject',
        circuit: { firstProbe: 0, resetTimeout: 600_000 },
      }),
    },
  }
  let gateway = await start(options).catch(async (error) => {
    await close()
    throw error
  })
  const admin: Populated['admin'] = async (method, path, body) => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${path}: ${text}`)
    return JSON.parse(text)
  }
  let secret = ''
  const ask: Populated['ask'] = async (model, text = 'Hello') => {
    const body = { model, messages: [{ role: 'user', content: text }], stream: text === 'break' }
    return (
      (await post(`${gateway.base}/chat/completions`, body, { authorization: `Bearer ${secret}` }).catch(() => null))
        ?.status ?? 0
    )
  }
  const populate = async () => {
    const team = await admin('POST', '/teams', { name: NAMES.team })
    const tags = { app: HOSTILE }
    ;({ secret } = await admin('POST', '/keys', { name: NAMES.key, team: team.id, tags }))
    await admin('POST', '/keys', { name: 'ci', tags, limits: { requestsPerMinute: 60 } })
    await admin('POST', '/budgets', {
      name: NAMES.budget,
      amount: '0.2',
      period: 'month',
      mode: 'soft',
      appliesTo: { teams: [team.id] },
    })
    for (let turn = 0; turn < 6; turn++) {
      await ask('chat-default', `Tell me about ${HOSTILE}`)
      await ask('steady/small', 'Hello')
    }
    for (const text of Object.values(FOREIGN)) {
      await ask(`steady/${text}`, text)
      await ask(text, text)
    }
    await ask('shaky/big', HOSTILE)
    await ask('steady/small', 'break')
  }
  await populate().catch(async (error) => {
    await Promise.all([gateway.stop(), close()])
    throw error
  })
  return {
    get gateway() {
      return gateway
    },
    data,
    async kill() {
      gateway.child.kill('SIGKILL')
      await gateway.stop()
    },
    async restart() {
      gateway = await start(options)
    },
    admin,
    ask,
    async close() {
      await gateway.stop()
      await close()
    },
  }
}
