/**
 * A gateway with the traffic of two teams: answers, an outage, a slow answer and refusals. Its two providers count what they
 * bill, by the names that the text of each request has, so that every figure of the gateway can be compared with theirs.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { answerWith, failWith } from '../../support/answers.ts'
import { startUpstream, type Upstream, type UpstreamRequest } from '../../support/upstream.ts'
import { post, type Started, start } from './process.ts'
import { untilStored } from './stored-usage.ts'

export const ADMIN = 'admin-0123456789abcdef0123456789'
/** The error text of the outage. */
export const OUTAGE = 'cluster eu-2 is down'
/** Tokens of every answer. */
export const ANSWER = { text: 'hello', input: 200, output: 100 } as const
/** Nano-dollars of an answer: of alpha 200 tokens at $100 and 100 at $400 per million, of beta half of that. */
export const PRICE = { alpha: 60_000_000, beta: 30_000_000 } as const
/** ms until the first byte of a slow answer. */
export const SLOW = 400

type ProviderName = keyof typeof PRICE
type Names = { readonly team: string; readonly user: string; readonly app: string }

/** What a provider has billed, in nano-dollars, and how many answers. */
export type Billed = Names & {
  readonly id: string
  readonly provider: ProviderName
  readonly model: string
  readonly nano: number
}

export type Operated = {
  readonly gateway: Started
  readonly data: string
  /** What the providers have billed so far. */
  readonly bills: readonly Billed[]
  /** Requests that alpha answered with 503. */
  readonly failed: readonly string[]
  /** Statuses of requests by ID. */
  readonly statuses: ReadonlyMap<string, number>
  /** Client keys by name. */
  readonly keys: Record<string, string>
  /** Sends a request; returns its status. */
  readonly ask: (id: string, options: AskOptions) => Promise<number>
  readonly close: () => Promise<void>
}

export type AskOptions = Partial<Names> & { readonly key: string; readonly model?: string }

/** The tag `app` of the key of each team. */
const APPS: Readonly<Record<string, string>> = { search: 'web', shop: 'batch' }

const FILE = (alpha: string, beta: string): string => `providers:
  alpha: { kind: openai, baseUrl: "${alpha}/v1", keys: [sk-alpha-0000000000], models: [small, slow] }
  beta: { kind: anthropic, baseUrl: "${beta}/v1", keys: [sk-beta-00000000000], models: [small] }
unknownModel: reject
usage: { rollupTag: app, endUser: true }
circuit: { firstProbe: 0, resetTimeout: 600000 }
routes:
  fast: { targets: [alpha/small], fallback: [beta/small] }
  trial:
    strategy: weighted
    targets:
      - { provider: alpha, model: small, weight: 9 }
      - { provider: beta, model: small, weight: 1 }
prices:
  - { provider: alpha, model: small, perMillion: { input: 100, output: 400 } }
  - { provider: alpha, model: slow, perMillion: { input: 100, output: 400 } }
  - { provider: beta, model: small, perMillion: { input: 50, output: 200 } }
`

const textOf = ({ team = '', user = '', app = '' }: Partial<Names>, id: string): string =>
  `team=${team} user=${user} app=${app} id=${id}.`
const namesIn = (body: string): Names & { readonly id: string } => {
  const of = (name: string) => new RegExp(`${name}=([\\w-]*)`).exec(body)?.[1] ?? ''
  return { team: of('team'), user: of('user'), app: of('app'), id: of('id') }
}

export const startOperated = async (): Promise<Operated> => {
  const data = mkdtempSync(join(tmpdir(), 'headgate-operator-'))
  const bills: Billed[] = []
  const failed: string[] = []
  const state = { isDown: false }
  const statuses = new Map<string, number>()
  const answer = (provider: ProviderName) => (request: UpstreamRequest) => {
    const names = namesIn(request.body)
    if (request.method === 'POST') bills.push({ provider, model: request.model ?? '', nano: PRICE[provider], ...names })
    return answerWith(request, ANSWER)
  }
  const [ofAlpha, ofBeta] = [answer('alpha'), answer('beta')]
  const upstreams: readonly Upstream[] = await Promise.all([
    startUpstream((request) => {
      if (state.isDown && request.method === 'POST') {
        failed.push(namesIn(request.body).id)
        return failWith(request, 503, { type: 'api_error', message: OUTAGE })
      }
      const act = ofAlpha(request)
      return request.model === 'slow' && act.do === 'answer' ? { ...act, after: SLOW } : act
    }),
    startUpstream(ofBeta),
  ])
  const close = async () => {
    await Promise.all(upstreams.map((one) => one.close()))
    rmSync(data, { recursive: true, force: true })
  }
  const [alpha, beta] = upstreams.map(({ url }) => url)
  const gateway = await start({
    env: { DATA_DIR: data, AUTH_ADMIN: ADMIN, AUTH_REQUIRED: 'true' },
    files: { 'headgate.yaml': FILE(alpha ?? '', beta ?? '') },
  }).catch(async (error) => {
    await close()
    throw error
  })
  const ask: Operated['ask'] = async (id, { key, model = 'fast', user, ...names }) => {
    const body = {
      model,
      messages: [{ role: 'user', content: textOf({ ...names, ...(user !== undefined && { user }) }, id) }],
      max_tokens: 100,
      ...(user !== undefined && { user }),
    }
    const headers = { authorization: `Bearer ${key}`, 'x-request-id': id }
    const { status } = await post(`${gateway.base}/chat/completions`, body, headers)
    statuses.set(id, status)
    return status
  }
  const operated: Operated = {
    gateway,
    data,
    bills,
    failed,
    statuses,
    keys: {},
    ask,
    close: async () => {
      await gateway.stop()
      await close()
    },
  }
  await traffic(operated, state).catch(async (error) => {
    await operated.close()
    throw error
  })
  return operated
}

/** Calls the admin API. */
const admin = async (gateway: Started, path: string, body: object): Promise<string> => {
  const answer = await post(`${gateway.url}/admin/api/v1${path}`, body, { authorization: `Bearer ${ADMIN}` })
  assert.ok(answer.status < 300, answer.text)
  return String(answer.json().secret ?? answer.json().id)
}

/** 61 answers of search, 20 of shop until its budget is spent, 20 during the outage, a slow one, and refusals. */
const traffic = async (
  { gateway, keys, ask, bills, statuses, data }: Operated,
  state: { isDown: boolean },
): Promise<void> => {
  const teams: Record<string, string> = {}
  for (const [team, app] of Object.entries(APPS)) {
    const id = await admin(gateway, '/teams', { name: team })
    teams[team] = id
    keys[team] = await admin(gateway, '/keys', { name: `${team}-prod`, team: id, tags: { app } })
  }
  const limits = { requestsPerMinute: 1 }
  keys.limited = await admin(gateway, '/keys', { name: 'limited', team: teams.search, tags: { app: 'web' }, limits })
  const appliesTo = { teams: [teams.shop] }
  await admin(gateway, '/budgets', { name: 'shop-month', amount: '1.00', period: 'month', appliesTo })
  const many = async (team: string, count: number, name: string) => {
    for (let i = 0; i < count; i++)
      await ask(`${name}-${i}`, {
        key: keys[team] ?? '',
        team,
        user: `user-${i % 3}`,
        app: APPS[team] ?? '',
      })
  }
  await many('search', 60, 'search')
  // Before the outage: with an open circuit and a spent budget the answer is 503, because a target may come back.
  await many('shop', 20, 'shop')
  const shop = { key: keys.shop ?? '', team: 'shop', app: 'batch' }
  const search = { key: keys.search ?? '', team: 'search', app: 'web' }
  assert.equal(await ask('refused-402', shop), 402)
  assert.equal(await ask('slow-1', { ...search, model: 'alpha/slow' }), 200)
  state.isDown = true
  await many('search', 20, 'outage')
  state.isDown = false
  assert.equal(await ask('refused-401', { key: 'hgk_wrong' }), 401)
  assert.equal(await ask('refused-404', { ...search, model: 'none' }), 404)
  const limited = { key: keys.limited ?? '', team: 'search', app: 'web' }
  await ask('limited-first', limited)
  assert.equal(await ask('refused-429', limited), 429)
  await untilStored(data, 'every answer', ({ attempts, requests, openCalls }) => {
    const answered = attempts.filter(({ outcome }) => outcome === 'ok')
    return answered.length >= bills.length && requests.length >= statuses.size && openCalls === 0
  })
}

/** The sum of bills in nano-dollars. */
export const sumOf = (bills: readonly Billed[]): number => bills.reduce((sum, { nano }) => sum + nano, 0)

/** The bills of each value of a name, in nano-dollars. */
export const billedBy = (
  bills: readonly Billed[],
  name: Exclude<keyof Billed, 'nano'>,
): Readonly<Record<string, number>> =>
  Object.fromEntries([...Map.groupBy(bills, (bill) => bill[name])].map(([value, some]) => [value, sumOf(some)]))

/** An amount in dollars as nano-dollars. */
export const nanoOf = (dollars: unknown): number => Math.round(Number(dollars) * 1e9)
