/** Teams, client keys, budgets, prices, alerts and single sign-on of the file: checked, and converted to records. */
import {
  type AccountRecords,
  type Budget,
  type ClientKey,
  type FileAccounts,
  NO_ACCOUNTS,
  type PriceOverride,
  type PriceRule,
  type Team,
  type TokenPrices,
} from '../core/accounts.ts'
import type { ClaudeSettings } from '../core/claude.ts'
import type { Alerts } from '../core/config.ts'
import { nearest } from '../core/nearest.ts'
import { Secret } from '../core/secret.ts'
import type { Settings } from '../core/settings.ts'
import type { SignInSettings } from '../core/sign-in.ts'
import type { TokenRule } from '../core/token-rule.ts'
import { budgetOverlap, MAX_BUDGETS } from '../policy/accounts/budget-count.ts'
import { buildDirectory } from '../policy/accounts/directory.ts'
import { matchesGlob, parseGlob } from '../policy/accounts/glob.ts'
import { type BudgetEntry, budgetMembersOf } from '../records/entities/budget.ts'
import { type KeyEntry, keyMembersOf } from '../records/entities/key.ts'
import { fileId, fingerprint } from '../records/entities/key-digest.ts'
import type { PriceEntry } from '../records/entities/price.ts'
import { type TeamEntry, teamMembersOf } from '../records/entities/team.ts'
import { AccountReport, type Path, type PlaceInFile } from './account-report.ts'
import { AccountSecrets } from './account-secrets.ts'
import { AccountValues } from './account-values.ts'
import { claudeFrom } from './claude.ts'
import type { FileContent } from './file-content.ts'
import { NamedAccounts, oneOf, SECTIONS } from './named-accounts.ts'
import { type Problem, quote } from './problem.ts'
import { withDrillAccounts, withShadowAccounts } from './shadow-accounts.ts'
import { signInFrom } from './sso.ts'
import { readTokenRules } from './token-rules.ts'

/** What the sections of the file are read with. */
export type AccountSources = {
  readonly content: FileContent
  readonly placeOf: PlaceInFile
  readonly auth: Pick<Settings['auth'], 'keys' | 'admin' | 'pepper'>
  /** Undefined: the settings are not valid. */
  readonly drill: Settings['drill'] | undefined
  /** IDs of the configured providers. */
  readonly providers: readonly string[]
  /** The records of the database, whose teams and keys the file may name; null: unknown, so names are not checked. */
  readonly stored: AccountRecords | null
}

export type ReadAccounts = {
  readonly accounts: FileAccounts
  readonly alerts: Alerts | null
  readonly sso: SignInSettings | null
  readonly claude: ClaudeSettings | null
  readonly tokenRules: readonly TokenRule[]
  readonly problems: readonly Problem[]
  readonly warnings: readonly string[]
}

/** Reads the sections. With problems the records are incomplete. */
export const accountsFrom = (sources: AccountSources): ReadAccounts => new AccountsReader(sources).read()

class AccountsReader {
  readonly #sources: AccountSources
  readonly #report: AccountReport
  readonly #names: NamedAccounts
  readonly #values: AccountValues
  readonly #secrets: AccountSecrets

  constructor(given: AccountSources) {
    const sources = { ...given, content: withDrillAccounts(withShadowAccounts(given.content), given.drill) }
    this.#sources = sources
    this.#report = new AccountReport(sources.placeOf)
    this.#names = new NamedAccounts(this.#report, sources.stored)
    this.#values = new AccountValues(this.#report)
    this.#secrets = new AccountSecrets(this.#report, this.#values, sources.auth)
  }

  read(): ReadAccounts {
    const { content } = this.#sources
    this.#names.collect('team', content.teams)
    this.#names.collect('key', content.keys)
    this.#names.collect('budget', content.budgets)
    const records = {
      teams: [...content.teams].map(([name, entry]) => this.#team(name, entry)),
      keys: [...content.keys].map(([name, entry]) => this.#key(name, entry)),
      budgets: [...content.budgets].map(([name, entry]) => this.#budget(name, entry)),
      prices: [...content.prices].map(([index, entry]) => this.#price(entry, index)),
    }
    const alerts = this.#alerts()
    const sso = content.sso && signInFrom(content.sso, this.#report)
    const claude = content.claude && claudeFrom(content.claude, content.sso !== null, this.#report)
    const tokenRules = readTokenRules(content.tokenRules, content.routes, this.#report)
    const isEmpty = Object.values(records).every((list) => list.length === 0)
    const accounts = isEmpty ? NO_ACCOUNTS : { ...records, routes: [], places: this.#names.places }
    const { stored } = this.#sources
    this.#secrets.refuseShared(accounts.keys)
    this.#secrets.warnOfTaken(accounts.keys, stored?.keys ?? [])
    if (stored) this.#names.refuseStored(accounts, stored)
    if (stored && this.#report.problems.length === 0) this.#refuseOverlap(accounts, stored)
    const { problems, warnings } = this.#report
    return { accounts, alerts, sso, claude, tokenRules, problems, warnings }
  }

  // ── Records ───────────────────────────────────────────────────────────────────────────────────────────────────

  #team(name: string, entry: TeamEntry): Team {
    return { id: this.#names.idOf('team', name), name, status: entry.status, managed: 'file', ...teamMembersOf(entry) }
  }

  #key(name: string, entry: KeyEntry): ClientKey {
    const path = ['keys', name]
    const { status, defaultRoute } = entry
    const { routes } = this.#sources.content
    if (defaultRoute !== null && !routes.has(defaultRoute))
      this.#report.refuse(
        [...path, 'defaultRoute'],
        `the route ${quote(defaultRoute)}, which does not exist`,
        oneOf(defaultRoute, [...routes.keys()], 'the name of a route'),
      )
    return {
      id: this.#names.idOf('key', name),
      name,
      status,
      ...keyMembersOf(entry),
      managed: 'file',
      team: this.#names.reference('team', entry.team, [...path, 'team']),
      secrets: this.#secrets.secretsOf(entry, path),
      createdAt: this.#values.instant(entry.createdAt, [...path, 'createdAt']) ?? 0,
      expiresAt: this.#values.instant(entry.expiresAt, [...path, 'expiresAt']),
    }
  }

  #budget(name: string, entry: BudgetEntry): Budget {
    const path = ['budgets', name]
    const to = [...path, 'appliesTo']
    const references = (kind: 'team' | 'key', list: readonly string[] | null) =>
      list?.map((one, index) => this.#names.reference(kind, one, [...to, SECTIONS[kind], index])) ?? null
    const { appliesTo, ...members } = budgetMembersOf(entry)
    return {
      id: this.#names.idOf('budget', name),
      name,
      ...members,
      managed: 'file',
      amount: this.#values.dollars(entry.amount, [...path, 'amount']),
      appliesTo: {
        ...appliesTo,
        teams: references('team', appliesTo.teams),
        keys: references('key', appliesTo.keys),
      },
      createdAt: this.#values.instant(entry.createdAt, [...path, 'createdAt']) ?? 0,
    }
  }

  #price(entry: PriceEntry, index: number): PriceRule {
    const path = ['prices', index]
    const { provider, model, factor, service, tiers, perCall, perUnit } = entry
    const effectiveFrom = this.#values.instant(entry.effectiveFrom, [...path, 'effectiveFrom']) ?? 0
    const id = entry.id ?? fileId('prc', `${provider}\0${model}\0${effectiveFrom}`)
    this.#names.place(id, path)
    const { providers } = this.#sources
    const glob = parseGlob(provider)
    if (!providers.some((name) => matchesGlob(glob, name)))
      this.#report.warn(
        `${this.#report.placeOf([...path, 'provider']).value}: the price of ${quote(provider)} has no effect, because this provider is not configured${nearest(provider, providers).map((name) => `; did you mean ${name}?`)}`,
      )
    const list = (of: PriceEntry['perMillion'], at: Path): TokenPrices =>
      Object.fromEntries(
        Object.entries(of ?? {}).map(([part, price]) => [part, this.#values.perToken(price, [...at, part])]),
      )
    const dollars = (of: Readonly<Record<string, string | number>>, member: string) =>
      Object.fromEntries(
        Object.entries(of).map(([name, price]) => [name, this.#values.dollars(price, [...path, member, name])]),
      )
    const prices: PriceOverride = {
      ...list(entry.perMillion, [...path, 'perMillion']),
      ...(tiers && {
        tiers: tiers.map((tier, at) => ({
          above: tier.above,
          ...list(tier.perMillion, [...path, 'tiers', at, 'perMillion']),
        })),
      }),
      ...(service && { service: { ...service } }),
      ...(perCall && { tools: dollars(perCall, 'perCall') }),
      ...(perUnit && { perUnit: dollars(perUnit, 'perUnit') }),
      ...(factor !== undefined && { factor }),
    }
    if (Object.keys(prices).length === 0)
      this.#report.refuse(path, 'no price', 'factor, perMillion, tiers, service, perCall or perUnit')
    return { id, provider, model, effectiveFrom, prices, managed: 'file' }
  }

  #alerts(): Alerts | null {
    const { alerts } = this.#sources.content
    if (!alerts) return null
    const { url, secret, format, rules } = alerts
    if (!/^https?:\/\/[^/\s]/.test(url) || !URL.canParse(url))
      this.#report.refuse(
        ['alerts', 'url'],
        'a value that is not shown, because it may be a secret',
        'an https:// address',
      )
    return {
      url: new Secret(url),
      secret: secret === undefined ? null : new Secret(secret),
      format,
      rules,
      fingerprint: fingerprint([url, secret]),
    }
  }

  #refuseOverlap(accounts: FileAccounts, stored: AccountRecords): void {
    const directory = buildDirectory(accounts, stored)
    const overlap = budgetOverlap(directory)
    if (!overlap) return
    const { client, budgets } = overlap
    this.#report.refuse(
      ['budgets'],
      `${budgets.length} budgets that count the same requests of ${client.name === '' ? 'clients without a key' : `the key ${quote(client.name)}`}: ${budgets.map(({ name }) => name).join(', ')}`,
      `at most ${MAX_BUDGETS}`,
      'name',
    )
  }
}
