/** `headgate keys`: client keys, in a running gateway or in its files. */
import { randomBytes } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { isObject, type JsonObject } from '../../core/json.ts'
import { nearest } from '../../core/nearest.ts'
import { createKey, keysIn, last4 } from '../../policy/accounts/client-key.ts'
import { KEY } from '../../records/entities/key.ts'
import { storedDigest } from '../../records/entities/secret-digest.ts'
import type { Shown } from '../../records/entities/shown.ts'
import { TEAM } from '../../records/entities/team.ts'
import { withBlocking } from '../accounts/blocking.ts'
import { asWritten, fromLitellm, type KeyImport } from '../accounts/key-import.ts'
import {
  findRecord,
  idOf,
  isRecordId,
  listAll,
  namesOf,
  type RecordStore,
  type Stored,
  withRecords,
} from '../accounts/record-store.ts'
import {
  patchOf,
  REMOVAL,
  type RestrictionOptions,
  restrictionsOf,
  withLimits,
  withTags,
} from '../accounts/restrictions.ts'
import { choice, repeated, shellWord, tagsOf, timeOf } from '../arguments.ts'
import { resetDay } from '../budget-text.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { answerList, dayOf, type ListingOptions, withListing } from '../listing.ts'
import { readLocal, validConfig } from '../local.ts'
import { type Cell, moneyText, table } from '../table.ts'

type CreateOptions = RestrictionOptions & {
  readonly team: string
  readonly expires?: string
  readonly digestOnly?: true
  readonly requireSession?: boolean
}

const bodyOf = (name: string, options: CreateOptions): JsonObject => ({
  name,
  team: options.team,
  ...restrictionsOf(options),
  ...(options.requireSession !== undefined && { requireSession: options.requireSession }),
  expires_at: options.expires === undefined ? null : timeOf('--expires', options.expires, 1),
  tags: tagsOf(options.tag),
})

const limitsText = (limits: Stored<'key'>['limits']): string => {
  const parts = [
    [limits.requestsPerMinute, 'requests/min'],
    [limits.tokensPerMinute, 'tokens/min'],
    [limits.concurrent, 'concurrent'],
  ].flatMap(([value, unit]) => (value === null ? [] : [`${value} ${unit}`]))
  return parts.join(', ') || '–'
}

const keyCells = (key: Stored<'key'>, teams: ReadonlyMap<string, string>, { paint }: Cli): readonly Cell[] => [
  key.name,
  key.id,
  teams.get(key.team) ?? key.team,
  { text: key.status, paint: key.status === 'active' ? paint.good : paint.bad },
  `…${key.last4 ?? ''}`,
  limitsText(key.limits),
  dayOf(key.expires_at),
  dayOf(key.last_used_at),
]

const HEADINGS = ['NAME', 'ID', 'TEAM', 'STATUS', 'SECRET', 'LIMITS', 'EXPIRES', 'LAST USED']

/** A key with a secret that is shown once: a gateway that states less about the key must not lose it. */
const MADE_KEY = KEY.partial().extend(KEY.pick({ id: true, name: true, team: true }).shape)
type MadeKey = Shown<typeof MADE_KEY>

/** Prints a key. The secret is alone on stdout; the rest is a note on stderr. */
const printSecret = async (cli: Cli, store: RecordStore, key: MadeKey): Promise<void> => {
  if (cli.options.json) return cli.print(JSON.stringify(key))
  // Before anything else that can fail: it is not shown again.
  cli.print(key.secret ?? '')
  const { id, name, team } = key
  const parts = [
    id,
    name,
    `team ${(await namesOf(store, 'team')).get(team) ?? team}`,
    key.expires_at ? `expires ${dayOf(key.expires_at)}` : '',
  ]
  cli.note(
    `  ${[...parts, key.limits ? limitsText(key.limits) : ''].filter((part) => part && part !== '–').join('  ')}`,
  )
  cli.note('  The key is shown once. Keep it now.')
}

/** Budgets that count a key, as one line each. */
const budgetNotes = async (store: RecordStore, key: MadeKey): Promise<readonly string[]> => {
  if (!store.gateway) return []
  const applies = ({ appliesTo: { teams, keys } }: Stored<'budget'>) =>
    (teams === null || teams.includes(key.team)) && (keys === null || keys.includes(key.id))
  return (await listAll(store, 'budget')).filter(applies).map((budget) => {
    const { name, per, timezone, now } = budget
    const [amount, end] = [moneyText(budget.amount), resetDay(budget)]
    const state =
      per === 'all' ? `${moneyText(now?.spent)} of ${amount}` : `${amount} for each ${per.replace('_', ' ')}`
    return `  budget ${name}: ${state}${end === null ? '' : `, resets ${end} ${timezone}`}`
  })
}

/** Prints a new key and its digest for headgate.yaml. Nothing is stored. */
const createForFile = async (cli: Cli, name: string, team: string): Promise<void> => {
  const { config } = validConfig(await readLocal(cli.host))
  const secret = createKey('client', randomBytes)
  const digest = storedDigest(secret, config.settings.auth.pepper)
  if (cli.options.json) return cli.print(JSON.stringify({ name, team, secret, digest }))
  cli.print(secret)
  cli.host.stderr.write(
    `  Add this to headgate.yaml; it contains no secret:\n  keys:\n    ${name}: { team: ${team}, digest: "${digest}" }\n`,
  )
}

/** The ID of the team of a new key. A team that does not exist is created, unless its name looks like a typing error. */
const teamFor = async (cli: Cli, store: RecordStore, team: string): Promise<string> => {
  if (isRecordId(team)) return team
  const teams = await namesOf(store, 'team')
  for (const [id, name] of teams) if (name === team) return id
  const [similar] = nearest(team, teams.values())
  if (similar !== undefined)
    throw new CliError(
      EXIT.conflict,
      `There is no team "${team}". Did you mean "${similar}"? To create it: headgate teams create ${shellWord(team)}`,
    )
  const created = await store.run(TEAM, { do: 'create', kind: 'team', body: { name: team } })
  cli.note(`  The team ${team} did not exist and was created (${created.id}).`)
  return created.id
}

const create = async (cli: Cli, name: string, options: CreateOptions): Promise<void> => {
  const body = bodyOf(name, options)
  if (options.digestOnly) return await createForFile(cli, name, options.team)
  await withRecords(cli, async (store) => {
    const team = await teamFor(cli, store, options.team)
    const key = await store.run(MADE_KEY, { do: 'create', kind: 'key', body: { ...body, team } })
    await printSecret(cli, store, key)
    if (!store.gateway && (await listAll(store, 'key')).length === 1)
      cli.note(
        'warning: from now on every model call needs a client key (AUTH_REQUIRED=true keeps it so if the data folder is lost, AUTH_REQUIRED=false keeps the gateway open)',
      )
    if (!cli.options.json) for (const line of await budgetNotes(store, key)) cli.note(line)
  })
}

/** The entries of a JSON file: a list, an object with a list `keys` or `data`, or one object in each line. */
const entriesOf = (path: string): readonly JsonObject[] => {
  const source = readFileSync(path, 'utf8')
  try {
    const value: unknown = JSON.parse(source)
    const entries = isObject(value) ? (value.keys ?? value.data ?? [value]) : value
    return Array.isArray(entries) ? entries.filter(isObject) : []
  } catch {
    const lines = source.split('\n').filter((line) => line.trim() !== '')
    return lines.map((line): unknown => JSON.parse(line)).filter(isObject)
  }
}

/** What happened to an entry. `notes`: what of it was not taken, and what to do instead. */
type ImportedKey = {
  readonly name: string
  readonly id: string | null
  readonly error: string | null
  readonly notes: readonly string[]
}

const importEntry = async (store: RecordStore, entry: KeyImport): Promise<ImportedKey> => {
  const { name } = entry
  try {
    const { id } = await store.run(KEY, { do: 'create', kind: 'key', body: entry.body })
    if (entry.isBlocked) await store.run(KEY, { do: 'block', kind: 'key', id })
    return { name, id, error: null, notes: entry.notesFor(id) }
  } catch (error) {
    if (!(error instanceof CliError) || error.code === EXIT.unreachable || error.code === EXIT.notPermitted) throw error
    return { name, id: null, error: error.message, notes: [] }
  }
}

const importKeys = async (cli: Cli, file: string, litellm: boolean, team: string): Promise<void> => {
  let entries: readonly JsonObject[]
  try {
    entries = entriesOf(resolve(cli.host.folder, file))
  } catch (error) {
    throw new CliError(
      EXIT.usage,
      `${file} cannot be read as JSON: ${error instanceof Error ? error.message : 'unknown'}.`,
    )
  }
  await withRecords(cli, async (store) => {
    const id = await teamFor(cli, store, team)
    const results: ImportedKey[] = []
    for (const entry of entries)
      results.push(await importEntry(store, litellm ? fromLitellm(entry, id) : asWritten(entry, id)))
    const failed = results.filter(({ error }) => error !== null)
    if (failed.length > 0) cli.exit(EXIT.failed)
    cli.answer({ imported: results.length - failed.length, failed: failed.length, results }, () => [
      ...failed.map(({ name, error }) => cli.paint.bad(`${name}: ${error}`)),
      ...results.flatMap(({ name, notes }) => notes.map((note) => cli.paint.warn(`${name}: ${note}`))),
      `${results.length - failed.length} imported, ${failed.length} failed`,
    ])
  })
}

/** The largest file that is scanned, in bytes. */
const MAX_SCANNED = 256 * 1024 * 1024

const scan = (cli: Cli, files: readonly string[]): void => {
  const found = files.flatMap((file) => {
    const path = resolve(cli.host.folder, file)
    const size = statSync(path, { throwIfNoEntry: false })?.size
    if (size === undefined || size > MAX_SCANNED)
      throw new CliError(
        EXIT.usage,
        size === undefined ? `${file} does not exist.` : `${file} is too large (limit 256 MiB).`,
      )
    return readFileSync(path, 'utf8')
      .split('\n')
      .flatMap((line, at) =>
        keysIn(line).map((key) => ({ file, line: at + 1, prefix: key.slice(0, 4), last4: last4(key) })),
      )
  })
  if (found.length > 0) cli.exit(EXIT.failed)
  cli.answer({ object: 'list', data: found }, () =>
    found.length === 0 ? ['no key found'] : found.map((one) => `${one.file}:${one.line}: ${one.prefix}…${one.last4}`),
  )
}

const show = (cli: Cli, key: Stored<'key'>, teams: ReadonlyMap<string, string>): void =>
  cli.answer(key, () => [
    ...table(HEADINGS, [keyCells(key, teams, cli)], cli),
    ...Object.entries(key.access).flatMap(([dimension, globs]) =>
      globs === null ? [] : [`${dimension}: ${globs.length === 0 ? 'nothing' : globs.join(', ')}`],
    ),
    ...key.secrets.map((secret) => {
      const end = secret.until === null ? '' : `, valid until ${secret.until}`
      return `secret …${secret.last4} created ${dayOf(secret.created_at)}${end}`
    }),
  ])

const withAccess = (command: Command): Command =>
  command
    .option('--models <globs>', 'models it may use, comma list; "any": as the team')
    .option('--routes <globs>', 'routes it may use')
    .option('--providers <globs>', 'providers it may use')
    .option('--styles <names>', 'API styles it may use: chat, responses, messages …')
    .option('--ips <ranges>', 'client addresses it may be used from')

const defineCreate = (command: Command, cli: () => Cli): void => {
  const created = command
    .command('create <name>')
    .description('Create a client key. It is shown once, alone on stdout.')
    .option('--team <team>', 'name or ID of its team; a new name creates the team', 'default')
  withTags(
    withSession(withLimits(withAccess(created))).option('--expires <time>', 'end of its validity: 90d, or 2026-12-31'),
  )
    .option('--digest-only', 'store nothing: print the key, and its digest for headgate.yaml')
    .addHelpText(
      'after',
      "\nExample: headgate keys create search-prod --team search --models 'openai/*,fast' --rpm 600 --expires 90d",
    )
    .action((name: string, options: CreateOptions) => create(cli(), name, options))
}

const withSession = (command: Command): Command =>
  command
    .option('--require-session', 'refuse requests that name no session')
    .option('--no-require-session', 'accept them')

type KeyUpdate = RestrictionOptions & { readonly expires?: string; readonly requireSession?: boolean }

const update = (cli: Cli, name: string, { expires, requireSession, ...options }: KeyUpdate): Promise<void> => {
  const end = expires === undefined || expires === 'never' ? null : timeOf('--expires', expires, 1)
  const patch = patchOf(options, {
    ...(expires !== undefined && { expires_at: end }),
    ...(requireSession !== undefined && { requireSession }),
  })
  return withRecords(cli, async (store) => {
    const id = await idOf(store, 'key', name)
    const key = await store.run(KEY, { do: 'patch', kind: 'key', id, patch, rev: null })
    show(cli, key, await namesOf(store, 'team'))
  })
}

const defineUpdate = (command: Command, cli: () => Cli): void => {
  const updated = command
    .command('update <key>')
    .description('Change what a key may do. Its secret and its team stay, and so does what no option names.')
  withTags(
    withSession(withLimits(withAccess(updated))).option(
      '--expires <time>',
      'end of its validity: 90d, 2026-12-31, or never',
    ),
  )
    .addHelpText('after', `\n${REMOVAL}\n\nExample: headgate keys update search-prod --rpm 1200 --tpm unlimited`)
    .action((name: string, options: KeyUpdate) => update(cli(), name, options))
}

const defineChanges = (command: Command, cli: () => Cli): void => {
  command
    .command('rotate <key>')
    .description('Give a key a new secret. Older secrets stay valid for the overlap.')
    .option('--overlap <duration>', 'validity of older secrets: 24h, 7d; 0s for a secret that leaked', '24h')
    .addHelpText('after', '\nExample: headgate keys rotate search-prod --overlap 7d')
    .action((name: string, { overlap }: { overlap: string }) =>
      withRecords(cli(), async (store) => {
        const key = await store.run(MADE_KEY, { do: 'rotate', id: await idOf(store, 'key', name), overlap })
        await printSecret(cli(), store, key)
      }),
    )
  withBlocking(command, cli, {
    kind: 'key',
    example: 'search-prod',
    block: 'Refuse requests with a key until it is unblocked.',
    unblock: 'Accept a blocked key again.',
  })
  command
    .command('revoke <key>')
    .description('Revoke a key for ever. Requests in progress finish.')
    .option('--cut', 'end the requests in progress, for a key that leaked')
    .addHelpText('after', '\nExample: headgate keys revoke search-prod --cut')
    .action((name: string, { cut }: { cut?: true }) =>
      withRecords(cli(), async (store) => {
        const id = await idOf(store, 'key', name)
        const key = await store.run(KEY, { do: 'delete', kind: 'key', id, rev: null, ...(cut && { cut }) })
        cli().answer(key, () => [`${key.name} is ${key.status}`])
      }),
    )
}

type ListOptions = ListingOptions & {
  readonly team?: string
  readonly status?: string
  readonly tag?: readonly string[]
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText(
    'after',
    '\nWithout a running gateway the files of the data folder are used.\n\nExample: headgate keys list --team search',
  )
  withListing(command.command('list'))
    .description('List client keys.')
    .option('--team <team>', 'only keys of this team')
    .addOption(choice('--status <status>', 'only keys with this status', ['active', 'blocked', 'expired', 'revoked']))
    .option('--tag <name=value>', 'only keys with this tag', repeated)
    .addHelpText('after', '\nExample: headgate keys list --team search --sort last-used')
    .action(({ team, status, tag = [], ...options }: ListOptions) =>
      withRecords(cli(), async (store) => {
        const query = {
          ...(team !== undefined && { team: [await idOf(store, 'team', team)] }),
          ...(status !== undefined && { status: [status] }),
          ...(tag.length > 0 && { tag: tag.map((one) => one.replace('=', ':')) }),
        }
        const rows = await listAll(store, 'key', query)
        const teams = await namesOf(store, 'team')
        answerList(cli(), options, { headings: HEADINGS, rows, cells: (key) => keyCells(key, teams, cli()) })
      }),
    )
  defineCreate(command, cli)
  command
    .command('show <key>')
    .description('Show a key by name or ID, without its secrets.')
    .addHelpText('after', '\nExample: headgate keys show search-prod')
    .action((name: string) =>
      withRecords(cli(), async (store) =>
        show(cli(), await findRecord(store, 'key', name), await namesOf(store, 'team')),
      ),
    )
  defineUpdate(command, cli)
  defineChanges(command, cli)
  command
    .command('import <file>')
    .description('Import keys with their digests, so that clients keep them. The file is JSON.')
    .option('--litellm', "the file is LiteLLM's list of keys (GET /key/list?return_full_object=true)")
    .option('--team <team>', 'team of keys that name none', 'default')
    .addHelpText('after', '\nExample: headgate keys import --litellm export.json --team search')
    .action((file: string, { litellm, team }: { litellm?: true; team: string }) =>
      importKeys(cli(), file, litellm === true, team),
    )
  command
    .command('scan <files...>')
    .description('Find keys of Headgate in files. Exits with 1 if there is one. Only the end of a key is printed.')
    .addHelpText('after', '\nExample: headgate keys scan .env deploy/*.yaml')
    .action((files: string[]) => scan(cli(), files))
}
