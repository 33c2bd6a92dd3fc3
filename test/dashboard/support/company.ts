/**
 * A gateway with the data of a company: fifty teams, two hundred keys, ten budgets, and a week of requests that the bookkeeper
 * has stored. Its providers are on loopback. What a page shows can be compared with `requests` and `outages`.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Budget, NO_ACCOUNTS } from '../../../src/core/accounts.ts'
import { ControlDatabase } from '../../../src/records/store/control-database.ts'
import { fork } from '../../../tools/sim/chance.ts'
import { post, type Started, start } from '../../e2e/support/process.ts'
import { answerWith, failWith } from '../../support/answers.ts'
import { type Act, startUpstream, type UpstreamRequest } from '../../support/upstream.ts'
import { journalStore } from '../../support/usage-ledger.ts'
import { appOf, type CompanyIds, chargerOf, companyRecords } from './company-records.ts'
import {
  BUDGETS,
  type BudgetPlan,
  companyFile,
  KEPT,
  KEY_KINDS,
  LIMITED,
  PROVIDERS,
  TARGETS,
  TEAMS,
} from './company-teams.ts'
import { type CompanyTraffic, companyTraffic, type MadeRequest, nextRequest } from './company-traffic.ts'
import { answerTo, CONVERSATIONS } from './conversations.ts'

export const ADMIN = 'admin-0123456789abcdef0123456789'
const HOUR = 3_600_000
const DAY = 24 * HOUR
/** ms between two requests of live traffic. */
const LIVE_EVERY = 300

export type Company = CompanyTraffic & {
  readonly gateway: Started
  readonly ids: CompanyIds
  /** Secrets of keys, by their names. */
  readonly secrets: ReadonlyMap<string, string>
  /** The budgets with their amounts. */
  readonly budgets: readonly Budget[]
  /** IDs of the requests whose bodies are kept, in the order of `CONVERSATIONS`. */
  readonly kept: readonly string[]
  /** Providers that answer 503 from now on. */
  readonly down: Set<string>
  readonly close: () => Promise<void>
}

export type CompanyOptions = {
  /** ms since 1970: the end of the week. */
  readonly now?: number
  readonly seed?: number
  /** Requests of the week, about. */
  readonly count?: number
  /** Sends a few requests a second until it is closed. */
  readonly live?: boolean
  readonly env?: Readonly<Record<string, string>>
}

export const startCompany = async ({
  now = Date.now(),
  seed = 1,
  count = 35_000,
  live = false,
  env = {},
}: CompanyOptions = {}): Promise<Company> => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-company-'))
  const closers: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
  const close = async () => {
    for (const closer of closers.reverse()) await closer()
  }
  try {
    const traffic = companyTraffic(now, count, seed)
    const accounts = await storeAccounts(folder, traffic.requests, now - 60 * DAY)
    const ledger = journalStore(folder, { timezone: 'UTC', node: 'local' })
    await ledger.store(companyRecords(traffic, accounts.ids, accounts.budgets))
    await ledger.close()
    const down = new Set<string>()
    const chance = fork(seed, 5)
    const upstreams = await Promise.all(
      PROVIDERS.map(async (name) => {
        const upstream = await startUpstream((request) => answer(request, down.has(name), live ? chance() : 1), {
          discardsRecords: true,
        })
        closers.push(() => upstream.close())
        return [name, upstream.url] as const
      }),
    )
    const gateway = await start({
      env: { DATA_DIR: folder, AUTH_ADMIN: ADMIN, AUTH_REQUIRED: 'true', ...env },
      files: { 'headgate.yaml': companyFile(namedUrls(upstreams)) },
    })
    closers.push(() => gateway.stop())
    const kept = await converse(gateway, accounts.secrets.get(KEPT) ?? '')
    if (live) closers.push(keepAsking(gateway, accounts.secrets, seed))
    return { ...traffic, ...accounts, gateway, kept, down, close }
  } catch (error) {
    await close()
    throw error
  }
}

const namedUrls = (upstreams: readonly (readonly [string, string])[]): Parameters<typeof companyFile>[0] => {
  const [openai = '', anthropic = '', groq = '', house = ''] = upstreams.map(([, url]) => url)
  return { openai, anthropic, groq, house }
}

/** `luck`: from 0 to 1; below 0.02 it fails. */
const answer = (request: UpstreamRequest, isDown: boolean, luck: number): Act => {
  if (request.method !== 'POST') return failWith(request, 404, { type: 'not_found', message: 'There is no list.' })
  if (isDown) return failWith(request, 503, { type: 'api_error', message: 'The service is down (cluster eu-2).' })
  if (luck < 0.02) return failWith(request, 500, { type: 'server_error', message: 'The server had an error.' })
  if (request.path.endsWith('/embeddings'))
    return {
      do: 'answer',
      body: {
        ...{ object: 'list', model: request.model, data: [{ object: 'embedding', index: 0, embedding: [0.1, 0.2] }] },
        usage: { prompt_tokens: 240, total_tokens: 240 },
      },
    }
  return answerWith(request, answerTo(request.body), { first: 40, gap: 4 })
}

// ── Accounts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Teams, keys and budgets in the database of the folder. Amounts of budgets follow from what was spent. */
const storeAccounts = async (folder: string, requests: readonly MadeRequest[], at: number) => {
  const settings = { pepper: null, configured: TARGETS, auditDays: 365, file: NO_ACCOUNTS }
  const database = await ControlDatabase.open({ folder, database: null }, settings)
  try {
    const create = async (
      kind: 'team' | 'key' | 'budget',
      body: object,
    ): Promise<Readonly<Record<string, unknown>>> => {
      const actor = { kind: 'cli', id: 'seed', name: 'seed' }
      const context = { actor, from: null, requestId: null, teams: null, idempotencyKey: null }
      const result = await database.run({ do: 'create', kind, body }, context, at)
      assert.ok(result.ok, JSON.stringify(result))
      return result.value
    }
    const ids = { teams: new Map<string, string>(), keys: new Map<string, string>() }
    const secrets = new Map<string, string>()
    for (const [number, name] of TEAMS.entries()) {
      const limits = number % 5 === 0 ? { requestsPerMinute: 600, tokensPerMinute: 2_000_000 } : {}
      const team = await create('team', { name, limits })
      ids.teams.set(name, String(team.id))
      for (const kind of KEY_KINDS) {
        const key = `${name}-${kind}`
        const own = key === LIMITED ? { requestsPerMinute: 20 } : {}
        const tags = { app: appOf(name) }
        const made = await create('key', { name: key, team: team.id, tags, limits: own, logBodies: key === KEPT })
        ids.keys.set(key, String(made.id))
        secrets.set(key, String(made.secret))
      }
    }
    const budgets: Budget[] = []
    for (const plan of BUDGETS) {
      const draft = budgetOf(plan, ids, at)
      // Amounts are whole cents: one that is to be spent is rounded down.
      const round = plan.share >= 1 ? Math.floor : Math.ceil
      const nano = 1e7 * Math.max(1, round(fullest(draft, ids, requests) / plan.share / 1e7))
      const { name, per, period, mode, appliesTo } = draft
      const amount = (nano / 1e9).toFixed(2)
      const { id } = await create('budget', { name, per, period, mode, appliesTo, amount })
      budgets.push({ ...draft, id: String(id), amount: Math.round(Number(amount) * 1e9) })
    }
    await database.storeUses(lastUses(requests, ids))
    return { ids, secrets, budgets }
  } finally {
    await database.close()
  }
}

/** The hour in which each key was used last. */
const lastUses = (
  requests: readonly MadeRequest[],
  ids: CompanyIds,
): readonly (readonly [id: string, hour: number])[] => {
  const uses = new Map(requests.map(({ key, at }) => [ids.keys.get(key ?? ''), at]))
  return [...uses].flatMap(([id, at]) => (id === undefined ? [] : [[id, at - (at % HOUR)] as const]))
}

const budgetOf = (plan: BudgetPlan, ids: CompanyIds, at: number): Budget => {
  const { name, per, period, mode, teams, keys, models = null, providers = null } = plan
  const idsOf = (names: readonly string[] | undefined, known: ReadonlyMap<string, string>) =>
    names?.map((one) => known.get(one) ?? '') ?? null
  return {
    ...{
      id: 'bud_planned',
      name,
      per,
      period,
      mode,
      amount: 0,
      timezone: 'UTC',
      startDay: 1,
      createdAt: at,
      alerts: [],
    },
    ...{ reserve: 'typical', onOverrun: 'finish', enforcement: 'fast', countFrom: 'creation', managed: 'api' },
    appliesTo: { teams: idsOf(teams, ids.teams), keys: idsOf(keys, ids.keys), tags: null, models, providers },
  }
}

/** Nano-dollars that the fullest counter of a budget has spent in the period of the last request. */
const fullest = (budget: Budget, ids: CompanyIds, requests: readonly MadeRequest[]): number => {
  const spent = new Map<string, number>()
  const charger = chargerOf([budget], ids)
  let last = ''
  for (const request of requests)
    for (const attempt of request.attempts)
      for (const charge of charger(request, attempt)) {
        spent.set(charge, (spent.get(charge) ?? 0) + (attempt.nano ?? 0))
        last = charge
      }
  const period = last.slice(0, last.indexOf(' ') + 1)
  return Math.max(0, ...[...spent].flatMap(([charge, nano]) => (charge.startsWith(period) ? [nano] : [])))
}

// ── Requests to the gateway ───────────────────────────────────────────────────────────────────────────────────────────

const converse = async (gateway: Started, secret: string): Promise<readonly string[]> => {
  const ids: string[] = []
  for (const { path, body } of CONVERSATIONS) {
    const answer = await post(`${gateway.base}${path}`, body, { authorization: `Bearer ${secret}` })
    assert.equal(answer.status, 200, answer.text)
    ids.push(answer.headers.get('x-request-id') ?? '')
  }
  return ids
}

/** Sends requests until the returned function is called. */
const keepAsking = (gateway: Started, secrets: ReadonlyMap<string, string>, seed: number): (() => void) => {
  const chance = fork(seed, 4)
  const ask = async () => {
    const { key, asked, style, endUser, stream } = nextRequest(chance, Date.now())
    const isEmbedding = style === 'embeddings'
    const said = { messages: [{ role: 'user', content: 'Summarise the last ticket.' }], stream: stream && !isEmbedding }
    const body = {
      model: asked,
      ...(isEmbedding ? { input: 'ticket' } : said),
      ...(endUser !== null && { user: endUser }),
    }
    const path = isEmbedding ? '/embeddings' : '/chat/completions'
    await post(`${gateway.base}${path}`, body, { authorization: `Bearer ${secrets.get(key ?? '') ?? 'hgk_wrong'}` })
  }
  // The gateway may have ended.
  const timer = setInterval(() => void ask().catch(() => {}), LIVE_EVERY)
  return () => clearInterval(timer)
}

// ── Figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Nano-dollars of requests; attempts without a price are not counted. */
export const spentOn = (requests: readonly MadeRequest[]): number =>
  requests.reduce((sum, { attempts }) => sum + attempts.reduce((part, { nano }) => part + (nano ?? 0), 0), 0)

/** Nano-dollars of each team, the highest first. */
export const spentByTeam = (requests: readonly MadeRequest[]): readonly (readonly [team: string, nano: number])[] =>
  [...Map.groupBy(requests, ({ team }) => team ?? '')]
    .map(([team, some]) => [team, spentOn(some)] as const)
    .sort(([, a], [, b]) => b - a)

/** Requests of a day in UTC, as 2026-11-27. */
export const onDay = (requests: readonly MadeRequest[], day: string): readonly MadeRequest[] => {
  const start = Date.parse(day)
  return requests.filter(({ at }) => at >= start && at < start + DAY)
}
