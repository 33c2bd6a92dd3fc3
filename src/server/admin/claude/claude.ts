/** The Claude Code gateway protocol, besides the sign-in: settings of people, what they have spent, telemetry. */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Client } from '../../../core/accounts.ts'
import type { ClaudeSettings } from '../../../core/claude.ts'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import type { JsonObject } from '../../../core/json.ts'
import { parseDollars } from '../../../core/money.ts'
import type { SignInSettings } from '../../../core/sign-in.ts'
import type { BudgetState } from '../../../gateway/accounts/budget-counters.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import { periodAt } from '../../../policy/accounts/period.ts'
import { isPersonal, standingOf } from '../../../policy/accounts/spend-standing.ts'
import { managedSettings, sortedJson } from '../../../policy/claude/managed-settings.ts'
import { spendPage, spentPage } from '../../../policy/claude/spend-page.ts'
import type { UsageReader } from '../../../usage/reading/usage-reader.ts'
import type { ClaudePages } from '../../claude-pages.ts'
import { TelemetryRelay, type TelemetryRelayOptions } from './telemetry-relay.ts'

export type ClaudeOptions = {
  readonly version: string
  /** Null: it was disabled a moment ago. */
  readonly settings: () => ClaudeSettings | null
  readonly sso: () => SignInSettings | null
  readonly gateway: Pick<Gateway, 'accounts' | 'world'>
  /** Opened at the first request for what a person has spent. */
  readonly usage: () => Promise<Pick<UsageReader, 'usage'>>
  /** The page about the protocol. */
  readonly page: URL
  readonly relay: Pick<TelemetryRelayOptions, 'count' | 'onState'>
}

export const openClaude = (options: ClaudeOptions): ClaudePages => {
  const { gateway, version } = options
  const relay = new TelemetryRelay({ world: gateway.world, ...options.relay })
  return {
    settings({ client, headers }) {
      const [claude, sso] = [options.settings(), options.sso()]
      if (!client.person) return bad(client.id === '' ? NO_TOKEN : NO_POLICY)
      const found = claude && sso && managedSettings(claude, { ...client.person, team: client.team }, sso.publicUrl)
      if (!found) return bad(NO_POLICY)
      const checksum = checksumOf(found.settings)
      const common = { etag: `"${checksum}"`, vary: 'authorization', 'x-cc-gateway-version': `headgate-${version}` }
      if (isSame(headers, checksum)) return good({ status: 304, headers: common, body: '' })
      const body = JSON.stringify({ uuid: checksum, checksum, settings: found.settings })
      return good({ status: 200, headers: { ...common, 'content-type': 'application/json' }, body })
    },
    protocol: () => readFile(options.page, 'utf8'),
    async usage({ client }) {
      if (!client.person) return bad(client.id === '' ? NO_TOKEN : NO_PERSON)
      const { budgets } = await gateway.accounts.figuresOf(client)
      const own = budgets.filter(({ budget }) => isPersonal(budget)).map((state) => standingOf(figuresIn(state)))
      return own.length > 0 ? good(spendPage(own)) : spentLately(options, client)
    },
    receive(signal, { client, body, headers }) {
      if (client.id === '') return NO_TOKEN
      relay.relay(options.settings()?.receivers ?? [], { signal, body, headers })
      return null
    },
  }
}

/** The checksum that clients compute of their settings. */
export const checksumOf = (settings: JsonObject): string => `sha256:${hash('sha256', sortedJson(settings), 'hex')}`

/** A client that asks with `*` asks only whether there are settings. */
const isSame = (headers: HeaderLookup, checksum: string): boolean =>
  (headers('if-none-match') ?? '')
    .split(',')
    .some((one) => one.trim().replace(/^W\//, '').replaceAll('"', '') === checksum)

const figuresIn = ({ budget, spent, periodEnd }: BudgetState) => ({ budget, used: spent, periodEnd })

const DAY = { timezone: 'UTC', startDay: 1 } as const

/** What a person without a budget has spent, in UTC. */
const spentLately = async ({ usage, gateway }: ClaudeOptions, client: Client): Promise<Outcome<JsonObject>> => {
  const reader = await usage()
  const now = gateway.world.date()
  const spentIn = async (period: 'month' | 'day' | 'week') => {
    const { start } = periodAt({ ...DAY, period }, now)
    const filter = { key: [client.id], team: [client.team.id] }
    const range = { from: start, to: Math.max(now, start + 1) }
    const report = await reader.usage({ ...range, by: [], bucket: 'none', tz: null, filter, limit: 1, after: null })
    return report.ok ? parseDollars(String(report.value.total.cost), 'any') : report
  }
  const [month, day, week] = await Promise.all([spentIn('month'), spentIn('day'), spentIn('week')])
  if (!month.ok) return month
  if (!day.ok) return day
  if (!week.ok) return week
  return good(spentPage({ month: month.value, day: day.value, week: week.value }))
}

const NO_TOKEN = fail('unauthenticated', 'Sign in: /login in Claude Code, or headgate login.')
const NO_POLICY = fail('not_found', 'There are no managed settings for this client.')
const NO_PERSON = fail('not_found', 'Only people who signed in have this page. With a key ask for /v1/usage.')
