/** `headgate audit`: lists the audit log, and checks its chain. */
import { isObject } from '../../core/json.ts'
import type { Shown } from '../../records/entities/shown.ts'
import { type AUDIT_ENTRY, AUDIT_PAGE, AUDIT_VERIFICATION } from '../../server/answers/audit.ts'
import {
  findRecord,
  isRecordId,
  pagesOf,
  type RecordName,
  type RecordStore,
  withRecords,
} from '../accounts/record-store.ts'
import { repeated, timeOf, wholeNumber } from '../arguments.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { answerList, type ListingOptions, secondOf, withListing } from '../listing.ts'
import type { Cell } from '../table.ts'

type AuditOptions = ListingOptions & {
  readonly since: string
  readonly until?: string
  readonly action?: readonly string[]
  readonly object?: string
  readonly limit: string
}

const HEADINGS = ['TIME', 'ACTOR', 'ACTION', 'OBJECT', 'CHANGED', 'FROM', 'REQUEST']

type ShownEntry = Shown<typeof AUDIT_ENTRY>

/** The members that differ between before and after. */
const changedIn = ({ before, after }: ShownEntry): string => {
  const [old, now] = [before, after].map((one) => (isObject(one) ? one : {}))
  const names = [...new Set([old, now].flatMap((one) => Object.keys(one ?? {})))]
  return names
    .filter((name) => name !== 'rev' && JSON.stringify(old?.[name]) !== JSON.stringify(now?.[name]))
    .join(', ')
}

/** The name of the object beside its ID, as it was at that time. */
const objectOf = ({ object, before, after }: ShownEntry): string => {
  const name = [after, before].flatMap((one) => (isObject(one) && typeof one.name === 'string' ? [one.name] : []))[0]
  return name === undefined ? object : `${name} (${object})`
}

const cells = (entry: ShownEntry): readonly Cell[] => [
  secondOf(entry.at) ?? '',
  entry.actor.name,
  entry.action,
  objectOf(entry),
  isObject(entry.before) ? changedIn(entry) : '',
  entry.from ?? '–',
  entry.request_id ?? '–',
]

const KINDS = ['key', 'team', 'budget', 'price', 'token'] as const satisfies readonly RecordName[]

/** The ID of an object by its name or ID, whatever it is. */
const objectId = async (store: RecordStore, name: string): Promise<string> => {
  if (isRecordId(name)) return name
  for (const kind of KINDS) {
    try {
      return (await findRecord(store, kind, name)).id
    } catch (error) {
      if (!(error instanceof CliError) || error.code !== EXIT.conflict) throw error
    }
  }
  // Not every object has a record: the ID of a circuit is that of its provider.
  return name
}

const listEntries = (cli: Cli, options: AuditOptions): Promise<void> =>
  withRecords(cli, async (store) => {
    const { since, until, action, object: named } = options
    const most = wholeNumber('--limit', options.limit) ?? Number.MAX_SAFE_INTEGER
    const query = {
      from: timeOf('--since', since, -1),
      ...(until !== undefined && { to: timeOf('--until', until, -1) }),
      ...(action !== undefined && { action: [...action] }),
      ...(named !== undefined && { object: [await objectId(store, named)] }),
    }
    const rows = await pagesOf((page) => store.run(AUDIT_PAGE, { do: 'audit', query: { ...query, ...page } }), most)
    answerList(cli, options, { headings: HEADINGS, rows, cells, none: 'No entry matches.' })
  })

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate audit list --since yesterday --action key.create')
  withListing(command.command('list'))
    .description('List what was changed, by whom, newest first.')
    .option('--since <time>', 'beginning: 7d, yesterday or 2026-11-01', '7d')
    .option('--until <time>', 'end, such as today; default: now')
    .option('--action <name>', 'only this action, such as key.create or login; may be repeated', repeated)
    .option('--object <name>', 'only this key, team, budget, price or token, by name or ID')
    .option('--limit <count>', 'at most this many', '100')
    .addHelpText('after', '\nExample: headgate audit list --object search-prod --columns time,actor,action,changed')
    .action((options: AuditOptions) => listEntries(cli(), options))
  command
    .command('verify')
    .description('Check that no entry of the audit log was changed or removed. Exits with 1 if one was.')
    .addHelpText('after', '\nExample: headgate audit verify')
    .action(() =>
      withRecords(cli(), async (store) => {
        const result = await store.run(AUDIT_VERIFICATION, { do: 'verify' })
        if (!result.ok) cli().exit(EXIT.failed)
        cli().answer(result, () => [
          result.ok
            ? cli().paint.good(`ok, ${result.checked} entries checked`)
            : cli().paint.bad(result.problem ?? 'an entry was changed'),
        ])
      }),
    )
}
