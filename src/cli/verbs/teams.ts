/** `headgate teams`: teams, in a running gateway or in its files. */
import type { Command } from 'commander'
import { TEAM } from '../../records/entities/team.ts'
import { deletedAs } from '../../server/answers/fields.ts'
import { withBlocking } from '../accounts/blocking.ts'
import { findRecord, idOf, listAll, type Stored, withRecords } from '../accounts/record-store.ts'
import {
  patchOf,
  REMOVAL,
  type RestrictionOptions,
  restrictionsOf,
  withLimits,
  withTags,
} from '../accounts/restrictions.ts'
import { tagsOf } from '../arguments.ts'
import type { Cli, DefineVerb } from '../cli.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import { type Cell, table } from '../table.ts'

const limit = (value: number | null): string => (value === null ? '–' : String(value))

const HEADINGS = ['NAME', 'ID', 'STATUS', 'MODELS', 'REQUESTS/MIN', 'TOKENS/MIN', 'CONCURRENT', 'MANAGED']

const cells = (team: Stored<'team'>, { paint }: Cli): readonly Cell[] => {
  const { name, id, status, access, limits, managed } = team
  return [
    name,
    id,
    { text: status, paint: status === 'active' ? paint.good : paint.bad },
    access.models === null ? 'any' : access.models.join(', ') || 'nothing',
    limit(limits.requestsPerMinute),
    limit(limits.tokensPerMinute),
    limit(limits.concurrent),
    managed,
  ]
}

const lines = (team: Stored<'team'>, cli: Cli): readonly string[] => table(HEADINGS, [cells(team, cli)], cli)

const withAccess = (command: Command): Command =>
  command
    .option('--models <globs>', 'models its keys may use, comma list')
    .option('--providers <globs>', 'providers its keys may use')

const defineWrites = (command: Command, cli: () => Cli): void => {
  withTags(withLimits(withAccess(command.command('create <name>').description('Create a team.'))))
    .addHelpText('after', "\nExample: headgate teams create search --models 'openai/*,fast' --tpm 200000")
    .action((name: string, options: RestrictionOptions) => {
      const body = { name, ...restrictionsOf(options), tags: tagsOf(options.tag) }
      return withRecords(cli(), async (store) => {
        const team = await store.run(TEAM, { do: 'create', kind: 'team', body })
        cli().answer(team, () => lines(team, cli()))
      })
    })
  const updated = command
    .command('update <team>')
    .description('Change what the keys of a team may do. What no option names stays.')
  withTags(withLimits(withAccess(updated)))
    .addHelpText('after', `\n${REMOVAL}\n\nExample: headgate teams update search --tpm 400000`)
    .action((name: string, options: RestrictionOptions) => {
      const patch = patchOf(options)
      return withRecords(cli(), async (store) => {
        const id = await idOf(store, 'team', name)
        const team = await store.run(TEAM, { do: 'patch', kind: 'team', id, patch, rev: null })
        cli().answer(team, () => lines(team, cli()))
      })
    })
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate teams list')
  withListing(command.command('list'))
    .description('List teams.')
    .addHelpText('after', '\nExample: headgate teams list --columns name,tokens-min')
    .action((options: ListingOptions) =>
      withRecords(cli(), async (store) => {
        const rows = await listAll(store, 'team')
        answerList(cli(), options, { headings: HEADINGS, rows, cells: (team) => cells(team, cli()) })
      }),
    )
  defineWrites(command, cli)
  command
    .command('show <team>')
    .description('Show a team by name or ID.')
    .addHelpText('after', '\nExample: headgate teams show search')
    .action((name: string) =>
      withRecords(cli(), async (store) => {
        const team = await findRecord(store, 'team', name)
        cli().answer(team, () => lines(team, cli()))
      }),
    )
  withBlocking(command, cli, {
    kind: 'team',
    example: 'search',
    block: 'Refuse requests of all keys of a team.',
    unblock: 'Accept the keys of a blocked team again.',
  })
  command
    .command('delete <team>')
    .description('Delete a team.')
    .option('--revoke-keys', 'revoke its keys; without it a team with keys is not deleted')
    .addHelpText('after', '\nExample: headgate teams delete search --revoke-keys')
    .action((name: string, { revokeKeys }: { revokeKeys?: true }) =>
      withRecords(cli(), async (store) => {
        const id = await idOf(store, 'team', name)
        const result = await store.run(deletedAs('team'), {
          do: 'delete',
          kind: 'team',
          id,
          rev: null,
          ...(revokeKeys && { keys: 'revoke' }),
        })
        cli().answer(result, () => [`${name} is deleted`])
      }),
    )
}
