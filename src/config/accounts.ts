/** Teams, client keys, budgets, prices and alerts of the file: checked, and converted to records. */
import {
  type AccountRecords,
  type Budget,
  type ClientKey,
  DEFAULT_TEAM,
  type FileAccounts,
  type KeySecret,
  NO_ACCOUNTS,
  type PriceOverride,
  type PriceRule,
  type Team,
  type TokenPrices,
} from '../core/accounts.ts'
import type { Alerts } from '../core/config.ts'
import { parseDollars } from '../core/money.ts'
import { nearest } from '../core/nearest.ts'
import { Secret } from '../core/secret.ts'
import type { Settings } from '../core/settings.ts'
import { accountNameProblem } from '../policy/accounts/account-name.ts'
import { budgetOverlap, MAX_BUDGETS } from '../policy/accounts/budget-count.ts'
import { isWellFormedKey, keyKindOf, last4 } from '../policy/accounts/client-key.ts'
import { buildDirectory } from '../policy/accounts/directory.ts'
import { matchesGlob, parseGlob } from '../policy/accounts/glob.ts'
import { type BudgetEntry, budgetMembersOf } from '../records/entities/budget.ts'
import { type KeyEntry, keyMembersOf } from '../records/entities/key.ts'
import { fileId, fingerprint } from '../records/entities/key-digest.ts'
import { PRICE_RANGE, type PriceEntry } from '../records/entities/price.ts'
import { digestsOf, storedDigest } from '../records/entities/secret-digest.ts'
import { type TeamEntry, teamMembersOf } from '../records/entities/team.ts'
import type { FileContent } from './file-content.ts'
import { type Problem, partsOf, quote } from './problem.ts'

type Path = readonly PropertyKey[]

/** What the sections of the file are read with. */
export type AccountSources = {
  readonly content: FileContent
  readonly placeOf: (path: Path) => {
    readonly name: string
    readonly value: string
    readonly written: string
    readonly filled: boolean
  }
  readonly auth: Pick<Settings['auth'], 'keys' | 'admin' | 'pepper'>
  /** IDs of the configured providers. */
  readonly providers: readonly string[]
  /** The records of the database, whose teams and keys the file may name; null: unknown, so names are not checked. */
  readonly stored: AccountRecords | null
}

export type ReadAccounts = {
  readonly accounts: FileAccounts
  readonly alerts: Alerts | null
  readonly problems: readonly Problem[]
  readonly warnings: readonly string[]
}

/** Reads the sections. With problems the records are incomplete. */
export const accountsFrom = (sources: AccountSources): ReadAccounts => new AccountsReader(sources).read()

type Kind = 'team' | 'key' | 'budget'
const SECTIONS = { team: 'teams', key: 'keys', budget: 'budgets' } as const
const PREFIXES = { team: 'team', key: 'key', budget: 'bud' } as const

const NANO_PER_DOLLAR = 1_000_000_000
const TOKENS = 1_000_000
const MIN_SECRET = 20
const AMOUNT = 'dollars with at most nine decimals, such as "2500.00", at most 9007199'
const INSTANT = 'a date such as 2026-12-01 (midnight in UTC), or a time such as 2026-12-01T09:30:00Z'

class AccountsReader {
  readonly #problems: Problem[] = []
  readonly #warnings: string[] = []
  readonly #places: Record<string, string> = {}
  readonly #sources: AccountSources
  /** IDs by name, of the file. */
  readonly #ids: { readonly [kind in Kind]: Map<string, string> } = {
    team: new Map(),
    key: new Map(),
    budget: new Map(),
  }

  constructor(sources: AccountSources) {
    this.#sources = sources
  }

  read(): ReadAccounts {
    const { content } = this.#sources
    this.#collectIds('team', content.teams)
    this.#collectIds('key', content.keys)
    this.#collectIds('budget', content.budgets)
    const records = {
      teams: [...content.teams].map(([name, entry]) => this.#team(name, entry)),
      keys: [...content.keys].map(([name, entry]) => this.#key(name, entry)),
      budgets: [...content.budgets].map(([name, entry]) => this.#budget(name, entry)),
      prices: [...content.prices].map(([index, entry]) => this.#price(entry, index)),
    }
    const alerts = this.#alerts()
    const isEmpty = Object.values(records).every((list) => list.length === 0)
    const accounts = isEmpty ? NO_ACCOUNTS : { ...records, places: this.#places }
    const { stored } = this.#sources
    this.#refuseSharedSecrets(accounts.keys)
    this.#warnOfTakenSecrets(accounts.keys, stored?.keys ?? [])
    if (stored) this.#refuseStoredNames(accounts, stored)
    if (stored && this.#problems.length === 0) this.#refuseOverlap(accounts, stored)
    return { accounts, alerts, problems: this.#problems, warnings: this.#warnings }
  }

  // ── Names, IDs and references ─────────────────────────────────────────────────────────────────────────────────

  #collectIds(kind: Kind, entries: ReadonlyMap<string, { readonly id?: string | undefined }>): void {
    const section = SECTIONS[kind]
    for (const [name, { id: written }] of entries) {
      const path = [section, name]
      const isDefault = kind === 'team' && name === DEFAULT_TEAM.name
      const id = written ?? (isDefault ? DEFAULT_TEAM.id : fileId(PREFIXES[kind], name))
      this.#sentence(path, accountNameProblem(name), 'name')
      if (isDefault !== (id === DEFAULT_TEAM.id))
        this.#refuse(
          [...path, 'id'],
          quote(id),
          `${DEFAULT_TEAM.id} for the team ${DEFAULT_TEAM.name}, and only for it`,
        )
      this.#place(id, path)
      this.#ids[kind].set(name, id)
    }
  }

  /** Notes where a record is written. */
  #place(id: string, path: Path): void {
    const { name } = this.#sources.placeOf(path)
    const place = name.replace(/:[0-9]+$/, '')
    const other = this.#places[id]
    if (other !== undefined) this.#refuse([...path, 'id'], `the ID ${id}, which ${other} has too`, 'each ID once')
    this.#places[id] = place
  }

  #idOf(kind: Kind, name: string): string {
    return this.#ids[kind].get(name) ?? fileId(PREFIXES[kind], name)
  }

  /** The ID of a team or key of the file; a reference to the database is returned as it is. */
  #reference(kind: 'team' | 'key', reference: string, path: Path): string {
    const own = this.#ids[kind]
    const id = own.get(reference)
    if (id !== undefined) return id
    if (kind === 'team' && reference === DEFAULT_TEAM.name) return DEFAULT_TEAM.id
    if (this.#sources.stored === null) return reference
    const stored: readonly { readonly id: string; readonly name: string }[] = this.#sources.stored[SECTIONS[kind]]
    const isKnown = ({ id, name }: { readonly id: string; readonly name: string }) =>
      id === reference || name === reference
    if (reference === DEFAULT_TEAM.id || [...own.values()].includes(reference) || stored.some(isKnown)) return reference
    const names = [...own.keys(), ...stored.map(({ name }) => name), ...(kind === 'team' ? [DEFAULT_TEAM.name] : [])]
    this.#refuse(
      path,
      `the ${kind} ${quote(reference)}, which does not exist`,
      this.#oneOf(reference, names, `the name or ID of a ${kind}`),
    )
    return reference
  }

  #oneOf(written: string, names: readonly string[], what: string): string {
    const [meant] = nearest(written, names)
    const listed = names.length === 0 || names.length > 20 ? '' : `: ${names.join(', ')}`
    return `${meant === undefined ? '' : `did you mean ${meant}? `}${what}${listed}`
  }

  // ── Records ───────────────────────────────────────────────────────────────────────────────────────────────────

  #team(name: string, entry: TeamEntry): Team {
    return { id: this.#idOf('team', name), name, status: entry.status, managed: 'file', ...teamMembersOf(entry) }
  }

  #key(name: string, entry: KeyEntry): ClientKey {
    const path = ['keys', name]
    const { status, defaultRoute } = entry
    const { routes } = this.#sources.content
    if (defaultRoute !== null && !routes.has(defaultRoute))
      this.#refuse(
        [...path, 'defaultRoute'],
        `the route ${quote(defaultRoute)}, which does not exist`,
        this.#oneOf(defaultRoute, [...routes.keys()], 'the name of a route'),
      )
    return {
      id: this.#idOf('key', name),
      name,
      status,
      ...keyMembersOf(entry),
      managed: 'file',
      team: this.#reference('team', entry.team, [...path, 'team']),
      secrets: this.#secrets(entry, path),
      createdAt: this.#instant(entry.createdAt, [...path, 'createdAt']) ?? 0,
      expiresAt: this.#instant(entry.expiresAt, [...path, 'expiresAt']),
    }
  }

  #secrets({ secret, digest, secrets, createdAt }: KeyEntry, path: Path): readonly KeySecret[] {
    const given = [secret, digest, secrets].filter((one) => one !== undefined).length
    if (given !== 1) {
      const found = given === 0 ? 'neither digest nor secret' : 'more than one of digest, secret and secrets'
      this.#refuse(path, found, 'one of digest, secret or secrets', 'name')
      return []
    }
    const created = this.#instant(createdAt, [...path, 'createdAt']) ?? 0
    const { pepper } = this.#sources.auth
    if (secret !== undefined) {
      this.#checkSecret(secret, [...path, 'secret'])
      return [{ digest: storedDigest(secret, pepper), last4: last4(secret), createdAt: created, until: null }]
    }
    const list = secrets ?? [{ digest: digest ?? '' }]
    return list.map((one, index) => {
      const own = secrets === undefined ? path : [...path, 'secrets', index]
      if (one.digest.startsWith('h1:') && pepper === undefined)
        this.#refuse([...own, 'digest'], 'a digest with pepper (h1:)', 'a digest that begins with s1:, or auth.pepper')
      return {
        digest: one.digest,
        last4: 'last4' in one ? (one.last4 ?? '') : '',
        createdAt: ('createdAt' in one ? this.#instant(one.createdAt, [...own, 'createdAt']) : null) ?? created,
        until: 'until' in one ? this.#instant(one.until, [...own, 'until']) : null,
      }
    })
  }

  #checkSecret(secret: string, path: Path): void {
    const kind = keyKindOf(secret)
    if (kind === 'admin') this.#refuse(path, 'an admin token (hga_)', 'a client key')
    else if (kind === 'client' && !isWellFormedKey(secret))
      this.#refuse(
        path,
        'a key that begins with hgk_ and has a wrong checksum',
        'the key as it was created; it may be mistyped',
      )
    else if (secret.length < MIN_SECRET || !/^[\x21-\x7e]+$/.test(secret))
      this.#refuse(
        path,
        'a key that is too short or has unusual characters',
        `at least ${MIN_SECRET} printable ASCII characters without spaces; create one with headgate keys create`,
      )
  }

  #budget(name: string, entry: BudgetEntry): Budget {
    const path = ['budgets', name]
    const to = [...path, 'appliesTo']
    const references = (kind: 'team' | 'key', list: readonly string[] | null) =>
      list?.map((one, index) => this.#reference(kind, one, [...to, SECTIONS[kind], index])) ?? null
    const { appliesTo, ...members } = budgetMembersOf(entry)
    return {
      id: this.#idOf('budget', name),
      name,
      ...members,
      managed: 'file',
      amount: this.#dollars(entry.amount, [...path, 'amount']),
      appliesTo: {
        ...appliesTo,
        teams: references('team', appliesTo.teams),
        keys: references('key', appliesTo.keys),
      },
      createdAt: this.#instant(entry.createdAt, [...path, 'createdAt']) ?? 0,
    }
  }

  #price(entry: PriceEntry, index: number): PriceRule {
    const path = ['prices', index]
    const { provider, model, factor, service, tiers, perCall } = entry
    const effectiveFrom = this.#instant(entry.effectiveFrom, [...path, 'effectiveFrom']) ?? 0
    const id = entry.id ?? fileId('prc', `${provider}\0${model}\0${effectiveFrom}`)
    this.#place(id, path)
    const { providers } = this.#sources
    const glob = parseGlob(provider)
    if (!providers.some((name) => matchesGlob(glob, name)))
      this.#warnings.push(
        `${this.#sources.placeOf([...path, 'provider']).value}: the price of ${quote(provider)} has no effect, because this provider is not configured${nearest(provider, providers).map((name) => `; did you mean ${name}?`)}`,
      )
    const list = (of: PriceEntry['perMillion'], at: Path): TokenPrices =>
      Object.fromEntries(Object.entries(of ?? {}).map(([part, price]) => [part, this.#perToken(price, [...at, part])]))
    const prices: PriceOverride = {
      ...list(entry.perMillion, [...path, 'perMillion']),
      ...(tiers && {
        tiers: tiers.map((tier, at) => ({
          above: tier.above,
          ...list(tier.perMillion, [...path, 'tiers', at, 'perMillion']),
        })),
      }),
      ...(service && { service: { ...service } }),
      ...(perCall && {
        tools: Object.fromEntries(
          Object.entries(perCall).map(([tool, price]) => [tool, this.#dollars(price, [...path, 'perCall', tool])]),
        ),
      }),
      ...(factor !== undefined && { factor }),
    }
    if (Object.keys(prices).length === 0)
      this.#refuse(path, 'no price', 'factor, perMillion, tiers, service or perCall')
    return { id, provider, model, effectiveFrom, prices, managed: 'file' }
  }

  #alerts(): Alerts | null {
    const { alerts } = this.#sources.content
    if (!alerts) return null
    const { url, secret, format, rules } = alerts
    if (!/^https?:\/\/[^/\s]/.test(url) || !URL.canParse(url))
      this.#refuse(['alerts', 'url'], 'a value that is not shown, because it may be a secret', 'an https:// address')
    return {
      url: new Secret(url),
      secret: secret === undefined ? null : new Secret(secret),
      format,
      rules,
      fingerprint: fingerprint([url, secret]),
    }
  }

  // ── Values ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** ms since 1970; null: not given, or not valid. */
  #instant(written: string | undefined, path: Path): number | null {
    if (written === undefined) return null
    const at = instantOf(written)
    if (at === undefined) this.#refuse(path, quote(written), INSTANT)
    return at ?? null
  }

  /** The source text of a number, since parsing it as a binary fraction could lose digits. */
  #decimal(value: string | number, path: Path): string {
    if (typeof value === 'string') return value
    return this.#sources.placeOf(path).written
  }

  #dollars(value: string | number, path: Path): number {
    const text = this.#decimal(value, path)
    const amount = parseDollars(text)
    if (amount.ok) return amount.value
    this.#refuse(path, quote(text), AMOUNT)
    return 0
  }

  #perToken(value: string | number | undefined, path: Path): number | undefined {
    if (value === undefined) return undefined
    const text = this.#decimal(value, path)
    const amount = parseDollars(text)
    const nano = amount.ok ? amount.value / TOKENS : Number.NaN
    const { least, most } = PRICE_RANGE
    const nanoOf = (dollars: number) => (dollars * NANO_PER_DOLLAR) / TOKENS
    const isAllowed = nano === 0 || (nano >= nanoOf(least) && nano <= nanoOf(most))
    if (!isAllowed)
      this.#refuse(path, quote(text), `dollars per million tokens: 0, or a number from ${least} to ${most}`)
    return nano
  }

  // ── Checks of all records ─────────────────────────────────────────────────────────────────────────────────────

  #refuseSharedSecrets(keys: readonly ClientKey[]): void {
    const owners = new Map<string, ClientKey>()
    for (const key of keys)
      for (const { digest } of key.secrets) {
        const owner = owners.get(digest)
        if (owner && owner.id !== key.id)
          this.#refuse(
            ['keys', key.name],
            `the same secret as the key ${quote(owner.name)}`,
            'another secret for each key',
            'name',
          )
        owners.set(digest, key)
      }
  }

  /**
   * A secret that a key of the database or of the environment has too. No reason to refuse the file: others write the
   * database, and must not be able to prevent a start. `KeyIndex` decides which one counts.
   */
  #warnOfTakenSecrets(keys: readonly ClientKey[], stored: readonly ClientKey[]): void {
    if (keys.length === 0) return
    const { keys: configured, admin, pepper } = this.#sources.auth
    const owners = new Map<string, string>()
    for (const { id, name, secrets } of stored)
      for (const { digest } of secrets)
        owners.set(digest, `the key ${quote(name)} of the database (${id}), which has no effect. Revoke that key`)
    const own = (secret: string, setting: string) => {
      for (const digest of digestsOf(secret, pepper))
        owners.set(digest, `${setting}, which takes precedence. Give the key another secret`)
    }
    for (const secret of configured) own(secret, 'auth.keys')
    if (admin !== undefined) own(admin, 'auth.admin')
    for (const { id, name, secrets } of keys)
      for (const { digest } of secrets) {
        const owner = owners.get(digest)
        if (owner === undefined || owner.includes(`(${id})`)) continue
        const where = this.#sources.placeOf(['keys', name]).name
        this.#warnings.push(`${where}: the key ${quote(name)} has the same secret as ${owner}.`)
      }
  }

  /** Names that the database has too; a record with the same ID is replaced by the file's. Names of keys are unique in their team. */
  #refuseStoredNames(accounts: FileAccounts, stored: AccountRecords): void {
    const storedTeams = stored.teams.filter(({ status }) => status !== 'deleted')
    const teamNames = new Map(storedTeams.map(({ id, name }) => [name, id]))
    const teamId = (team: string) => teamNames.get(team) ?? team
    const check = (kind: Kind, name: string, other: { readonly id: string } | undefined) => {
      if (other && other.id !== this.#idOf(kind, name))
        this.#refuse(
          [SECTIONS[kind], name],
          `the ${kind} ${quote(name)}, which is in the database too (${other.id})`,
          `another name; or run: headgate adopt ${kind} ${name}`,
          'name',
        )
    }
    for (const { name } of accounts.teams)
      check(
        'team',
        name,
        storedTeams.find((one) => one.name === name),
      )
    for (const { name } of accounts.budgets)
      check(
        'budget',
        name,
        stored.budgets.find((one) => one.name === name),
      )
    for (const { name, team } of accounts.keys)
      check(
        'key',
        name,
        stored.keys.find((one) => one.name === name && one.team === teamId(team) && one.status !== 'revoked'),
      )
  }

  #refuseOverlap(accounts: FileAccounts, stored: AccountRecords): void {
    const directory = buildDirectory(accounts, stored)
    const overlap = budgetOverlap(directory)
    if (!overlap) return
    const { client, budgets } = overlap
    this.#refuse(
      ['budgets'],
      `${budgets.length} budgets that count the same requests of ${client.name === '' ? 'clients without a key' : `the key ${quote(client.name)}`}: ${budgets.map(({ name }) => name).join(', ')}`,
      `at most ${MAX_BUDGETS}`,
      'name',
    )
  }

  #refuse(path: Path, found: string, allowed: string, at: 'name' | 'value' = 'value'): void {
    const where = this.#sources.placeOf(path)[at]
    this.#problems.push({ where, what: path.join('.'), found, allowed })
  }

  /** Refuses with a message of the policy: its last sentence is the remedy. */
  #sentence(path: Path, message: string | null, at: 'name' | 'value' = 'value'): void {
    if (message === null) return
    const { found, allowed } = partsOf(message)
    this.#refuse(path, found, allowed, at)
  }
}

const DATE = /^(\d{4})-(\d{2})-(\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/

/** ms since 1970 of a date or a time with its offset; undefined: neither. */
const instantOf = (text: string): number | undefined => {
  const [, year, month, day] = DATE.exec(text) ?? []
  const at = Date.parse(text)
  // `Date` accepts 31 April as 1 May.
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)))
  return Number.isNaN(at) || date.getUTCDate() !== Number(day) ? undefined : at
}
