/** `headgate routes`: the routes of teams in a running gateway, the canaries and the shadows of all routes. */
import { Argument, type Command } from 'commander'
import { stringify } from 'yaml'
import { z } from 'zod'
import { patchBetween } from '../../core/merge-patch.ts'
import type { Shown } from '../../records/entities/shown.ts'
import { CANARIES, CANARY, CANARY_ACTIONS } from '../../server/answers/canaries.ts'
import { deletedAs } from '../../server/answers/fields.ts'
import { type SHADOW, SHADOWS } from '../../server/answers/shadows.ts'
import {
  findRecord,
  idOf,
  listAll,
  namesOf,
  queryOf,
  RECORDS,
  type RecordStore,
  type Stored,
  throughGateway,
} from '../accounts/record-store.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'
import { readGivenObject } from '../given-file.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import { PLAN, planLines } from '../plan-lines.ts'
import { type Cell, type Look, table } from '../table.ts'

const API = '/admin/api/v1'
const WRITTEN = z.looseObject({ yaml: z.string() })

/** A gateway checks a route with its providers and its file, so that there is no way without one. */
const routeStore = async (cli: Cli): Promise<RecordStore> => throughGateway(await gatewayOf(cli))

const HEADINGS = ['NAME', 'ID', 'TEAM', 'TARGETS', 'STATE', 'REV']

type ListedTarget = Stored<'route'>['spec']['targets'][number]

/** `openai/gpt-5-mini`, or `openai/gpt-5-mini (when)` for one with a condition. */
const targetText = (target: ListedTarget): string => {
  if (typeof target === 'string') return target
  const { provider, model, when } = target
  return `${model === undefined ? provider : `${provider}/${model}`}${when === undefined ? '' : ' (when)'}`
}

type Teams = ReadonlyMap<string, string>

const cellsOf = ({ name, id, team, spec, shadowed, rev }: Stored<'route'>, teams: Teams, { paint }: Cli): Cell[] => [
  name,
  id,
  teams.get(team) ?? team,
  spec.targets.map(targetText).join(', '),
  shadowed ? { text: 'replaced by headgate.yaml', paint: paint.warn } : { text: 'active', paint: paint.good },
  String(rev),
]

const print = async (cli: Cli, store: RecordStore, route: Stored<'route'>): Promise<void> => {
  const teams: Teams = cli.options.json ? new Map() : await namesOf(store, 'team')
  cli.answer(route, () => table(HEADINGS, [cellsOf(route, teams, cli)], cli))
}

type TeamOption = { readonly team: string }

type EditOptions = { readonly name?: string; readonly rev?: string }

const edit = async (cli: Cli, named: string, file: string | undefined, options: EditOptions): Promise<void> => {
  const { name } = options
  if (options.rev !== undefined && !/^[0-9]{1,10}$/.test(options.rev))
    throw new CliError(EXIT.usage, '--rev needs the number of a revision, such as --rev 3.')
  if (file === undefined && name === undefined)
    throw new CliError(EXIT.usage, 'Name the file with the new contents, or a new name with --name.')
  const after = file === undefined ? undefined : await readGivenObject(cli, file)
  const store = await routeStore(cli)
  const route = await findRecord(store, 'route', named)
  // The patch removes what this revision has and the file does not, so that it must meet this revision.
  const patch = { ...(name !== undefined && { name }), ...(after && { spec: patchBetween(route.spec, after) }) }
  const rev = Number(options.rev ?? route.rev)
  await print(cli, store, await store.run(RECORDS.route, { do: 'patch', kind: 'route', id: route.id, patch, rev }))
}

type DraftOptions = TeamOption & { readonly request?: string }

const test = async (cli: Cli, file: string, { team, request }: DraftOptions): Promise<void> => {
  const spec = await readGivenObject(cli, file)
  const asked = request === undefined ? {} : { request: await readGivenObject(cli, request) }
  const gateway = await gatewayOf(cli)
  const plan = await gateway.read(PLAN, `${API}/routes/test`, { method: 'POST', body: { team, spec, ...asked } })
  cli.answer(plan, () => planLines(plan, cli))
}

const SPEC_HELP =
  'The file is a route as in headgate.yaml without its name, in YAML or JSON; - is the standard input. Headers and extra\nmembers of targets are for headgate.yaml only.'

const defineReads = (command: Command, cli: () => Cli): void => {
  withListing(command.command('list'))
    .description('List the routes of teams.')
    .option('--team <team>', 'only those of this team')
    .addHelpText(
      'after',
      '\nThose of headgate.yaml are in headgate config show.\n\nExample: headgate routes list --team search',
    )
    .action(async ({ team, ...options }: ListingOptions & Partial<TeamOption>) => {
      const store = await routeStore(cli())
      const query = team === undefined ? {} : { team: [await idOf(store, 'team', team)] }
      const [rows, teams] = [await listAll(store, 'route', query), await namesOf(store, 'team')]
      const cells = (route: Stored<'route'>) => cellsOf(route, teams, cli())
      answerList(cli(), options, { headings: HEADINGS, rows, cells, none: 'No team has a route of its own.' })
    })
  command
    .command('show <route>')
    .description('Show a route of a team by name or ID.')
    .option('--yaml', 'print its contents alone, for routes edit')
    .addHelpText('after', '\nExample: headgate routes show fast --yaml > fast.yaml')
    .action(async (name: string, { yaml }: { yaml?: true }) => {
      const store = await routeStore(cli())
      const route = await findRecord(store, 'route', name)
      const contents = stringify(route.spec).trimEnd()
      if (yaml && !cli().options.json) return cli().print(contents)
      await print(cli(), store, route)
      if (!cli().options.json) cli().print(`\n${contents}`)
    })
}

const defineWrites = (command: Command, cli: () => Cli): void => {
  command
    .command('create <name> <file>')
    .description('Create a route for the requests of a team.')
    .option('--team <team>', 'name or ID of the team', 'default')
    .addHelpText('after', `\n${SPEC_HELP}\n\nExample: headgate routes create fast fast.yaml --team search`)
    .action(async (name: string, file: string, { team }: TeamOption) => {
      const spec = await readGivenObject(cli(), file)
      const store = await routeStore(cli())
      const body = { name, team, spec }
      await print(cli(), store, await store.run(RECORDS.route, { do: 'create', kind: 'route', body }))
    })
  command
    .command('edit <route> [file]')
    .description('Replace the contents of a route by those of a file, or give it another name.')
    .option('--name <name>', 'its new name')
    .option('--rev <number>', 'revision that the file was made from: if the route has changed since, it stays')
    .addHelpText('after', `\n${SPEC_HELP}\n\nExample: headgate routes edit fast fast.yaml --rev 1`)
    .action((name: string, file: string | undefined, options: EditOptions) => edit(cli(), name, file, options))
  command
    .command('test <file>')
    .description('Show the plan of a route that is not stored, checked as one that is created.')
    .option('--team <team>', 'name or ID of the team', 'default')
    .option('--request <file>', 'body of a model call to plan (JSON); default: a short question')
    .addHelpText('after', `\n${SPEC_HELP}\n\nExample: headgate routes test fast.yaml --team search`)
    .action((file: string, options: DraftOptions) => test(cli(), file, options))
  command
    .command('delete <route>')
    .description('Delete a route of a team.')
    .addHelpText('after', '\nExample: headgate routes delete fast')
    .action(async (name: string) => {
      const store = await routeStore(cli())
      const id = await idOf(store, 'route', name)
      const result = await store.run(deletedAs('route'), { do: 'delete', kind: 'route', id, rev: null })
      cli().answer(result, () => [`${name} is deleted`])
    })
}

const defineFile = (command: Command, cli: () => Cli): void => {
  const write = (answer: Shown<typeof WRITTEN>) => cli().answer(answer, () => [answer.yaml.trimEnd()])
  command
    .command('adopt <route>')
    .description('Print a route of a team as YAML for headgate.yaml. Nothing is changed.')
    .addHelpText(
      'after',
      '\nIn headgate.yaml it is a route for all teams, and replaces the stored one, which can be deleted then.\n\nExample: headgate routes adopt fast',
    )
    .action(async (name: string) => {
      const gateway = await gatewayOf(cli())
      const id = await idOf(throughGateway(gateway), 'route', name)
      write(await gateway.read(WRITTEN, `${API}/routes/${id}/adopt`, { method: 'POST' }))
    })
  command
    .command('export')
    .description('Print the routes of teams as YAML for headgate.yaml.')
    .option('--team <team>', 'only those of this team, by name or ID')
    .addHelpText(
      'after',
      '\nA name that two teams have is written once.\n\nExample: headgate routes export --team search > routes.yaml',
    )
    .action(async ({ team }: Partial<TeamOption>) => {
      const gateway = await gatewayOf(cli())
      const query = team === undefined ? {} : { team: await idOf(throughGateway(gateway), 'team', team) }
      write(await gateway.read(WRITTEN, `${API}/routes/export${queryOf(query)}`))
    })
}

/** `fast  openai/gpt-6.1-sol  running, step 2 of 4, 5 % of the sessions`. */
const lineOf = ({ route, target, status, step, steps, share, reason }: Shown<typeof CANARY>): string =>
  `${route}  ${target}  ${status}, step ${step} of ${steps.length}, ${share} % of the sessions${reason === null ? '' : `: ${reason}`}`

const defineCanary = (command: Command, cli: () => Cli): void => {
  command
    .command('canary <route>')
    .description('Show the canary of a route, pause or resume it, or send its sessions back to the other targets.')
    .addArgument(
      new Argument(
        '[action]',
        'pause: the share stays; resume: it grows again; promote: it is that of the last step; back: it is 0',
      ).choices(CANARY_ACTIONS),
    )
    .addHelpText('after', '\nExample: headgate routes canary fast back')
    .action(async (route: string, action: string | undefined) => {
      const gateway = await gatewayOf(cli())
      const path = `${API}/canaries`
      const found =
        action === undefined
          ? (await gateway.read(CANARIES, path)).data.find((one) => one.route === route)
          : await gateway.read(CANARY, path, { method: 'POST', body: { route, action } })
      if (!found) throw new CliError(EXIT.conflict, `No route ${JSON.stringify(route)} has a canary.`)
      cli().answer(found, () => [lineOf(found)])
    })
}

/** The shadow of a route as lines: its copies, then the means of both sides. */
const shadowLines = (shadow: Shown<typeof SHADOW>, look: Look): readonly string[] => {
  const { route, target, percent, sent, answered, failed, stopped, left_out, same_finish, same_tools } = shadow
  const left = left_out.map(({ reason, count }) => `${count} ${reason}`)
  const sides = ['client', 'shadow'] as const
  const cells = (side: (typeof sides)[number]) => {
    const { first_content_ms, total_ms, input_tokens, output_tokens, characters, cost } = shadow[side]
    const figures = [first_content_ms, total_ms, input_tokens, output_tokens, characters]
    return [
      side,
      ...figures.map((figure) => (figure === null ? '-' : String(figure))),
      cost === null ? '-' : `$${cost}`,
    ]
  }
  return [
    `${route}  ${target}  ${percent} % of the sessions${stopped === null ? '' : `, stopped: ${stopped}`}`,
    `${sent} copies: ${answered} answered, ${failed} failed${left.length === 0 ? '' : `; left out: ${left.join(', ')}`}`,
    ...(answered === 0
      ? []
      : [
          `the same finish in ${same_finish} of ${answered}, the same tools in ${same_tools}`,
          '',
          ...table(SHADOW_HEADINGS, sides.map(cells), look),
        ]),
  ]
}

const SHADOW_HEADINGS = ['MEANS', 'FIRST CONTENT', 'TOTAL MS', 'INPUT', 'OUTPUT', 'CHARACTERS', 'COST OF ALL']

const defineShadow = (command: Command, cli: () => Cli): void => {
  command
    .command('shadow <route>')
    .description('Compare the answers of a route with those of its shadow.')
    .addHelpText('after', '\nExample: headgate routes shadow fast')
    .action(async (route: string) => {
      const gateway = await gatewayOf(cli())
      const found = (await gateway.read(SHADOWS, `${API}/shadows`)).data.find((one) => one.route === route)
      if (!found) throw new CliError(EXIT.conflict, `No route ${JSON.stringify(route)} has a shadow.`)
      cli().answer(found, () => shadowLines(found, cli()))
    })
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate routes list')
  defineReads(command, cli)
  defineWrites(command, cli)
  defineFile(command, cli)
  defineCanary(command, cli)
  defineShadow(command, cli)
}
