/** The configuration: its problems, its reloads, and the check of a file before it is deployed. */
import { resolve } from 'node:path'
import { z } from 'zod'
import { configVersion, configVersions, historyFolder } from '../../../config/config-history.ts'
import { jsonSchemaOf } from '../../../config/definition.ts'
import { effectiveConfig } from '../../../config/effective.ts'
import { pathsOf, readEnvironment, readTexts } from '../../../config/load.ts'
import type { Problem } from '../../../config/problem.ts'
import type { ReloadEntry } from '../../../config/reload-state.ts'
import { settingRows } from '../../../config/rows.ts'
import { bad, fail, good } from '../../../core/failure.ts'
import { time } from '../../../records/entities/shown.ts'
import { listOf } from '../../answers/fields.ts'
import { checkConfig } from '../config-check.ts'
import { changedRoutes } from '../config-routes.ts'
import { configText } from '../config-text.ts'
import { id } from '../fields.ts'
import { row } from '../row.ts'

const problem = z
  .strictObject({
    where: z.string().describe('`headgate.yaml:3:12`, or the name of a variable'),
    what: z.string().nullable().describe('The setting; null: `where` names it'),
    found: z.string(),
    allowed: z.string(),
  })
  .meta({ id: 'ConfigProblem' })

const problemAnswer = ({ where, what, found, allowed }: Problem) => ({ where, what: what ?? null, found, allowed })

/** A reload, in answers. */
export const reloadEntry = z
  .strictObject({
    at: time,
    outcome: z.enum(['changed', 'unchanged', 'refused']),
    changes: z.array(z.string()),
    warnings: z.array(z.string()),
    problems: z.array(problem),
  })
  .meta({ id: 'Reload' })

export const reloadAnswer = ({ at, outcome, changes, warnings, problems }: ReloadEntry) => ({
  at: new Date(at).toISOString(),
  outcome,
  changes: [...changes],
  warnings: [...warnings],
  problems: problems.map(problemAnswer),
})

const PROBLEM = {
  where: 'headgate.yaml:3:12',
  what: 'circuit.timeout',
  found: '"30s"',
  allowed: 'a whole number from 0 to 2147483647; times are in milliseconds, write 30000',
}

/** A text that was accepted. */
const version = z.strictObject({ id: z.string(), at: time.describe('When it was accepted') })
const VERSION = { id: '2026-11-23T10-00-00-000Z-1f0b2b2a', at: '2026-11-23T10:00:00.000Z' }

const origin = z.string().describe('`default`, `env`, `.env`, or a place in the file such as `headgate.yaml:12`')

/** Of a route. */
const targets = z.array(z.string()).nullable().describe('In their order, such as `openai/gpt-5`; null: no such route')

const effective = z
  .strictObject({
    object: z.literal('config'),
    stale: z.boolean().describe('The last reload was refused, so origins may name lines of a newer file'),
    settings: z.array(
      z.strictObject({
        name: z.string(),
        value: z.unknown().describe('null: not set. A secret is `set`; secrets are counted'),
        origin,
        variable: z.string().describe('The environment variable that sets it'),
        about: z.string().describe('What it does'),
      }),
    ),
    providers: z.array(
      z.strictObject({
        id: z.string(),
        kind: z.string(),
        base_url: z.string(),
        keys: z.array(z.string()).describe('Fingerprints'),
        models: z.array(z.string()),
        facts: z
          .looseObject({
            region: z.string().optional(),
            retention: z.int().optional(),
            training: z.boolean().optional(),
          })
          .nullable()
          .describe('Where and how it keeps data; null: nothing is declared'),
        origin,
      }),
    ),
    routes: z.array(z.looseObject({ name: z.string(), origin })),
    accounts: z
      .array(z.strictObject({ kind: z.string(), id: z.string(), name: z.string(), origin }))
      .describe('Teams, keys, budgets and prices of the file'),
  })
  .meta({ id: 'Config' })

export const configRows = [
  row({
    method: 'GET',
    path: '/config',
    summary: 'Show the running configuration with the origin of each value',
    about: 'Secrets are masked.',
    role: 'viewer',
    scope: 'all',
    answer: effective,
    example: {
      answer: {
        object: 'config',
        stale: false,
        settings: [
          {
            name: 'circuit.timeout',
            value: 30_000,
            origin: 'default',
            variable: 'CIRCUIT_TIMEOUT',
            about: 'time to first byte of an attempt (ms)',
          },
        ],
        providers: [
          {
            id: 'openai',
            kind: 'openai',
            base_url: 'https://api.openai.com/v1',
            keys: ['a1f3'],
            models: [],
            facts: { region: 'us', retention: 30 },
            origin: 'env',
          },
        ],
        routes: [],
        accounts: [],
      },
    },
    async handle({ configuration }) {
      const { sources, running, reloads } = configuration
      const shown = effectiveConfig({ config: running() }, await readTexts(sources), sources.env)
      const described = new Map(settingRows.map((one) => [one.name, one]))
      const settings = shown.settings.map((one) => {
        const { env, schema } = described.get(one.name) ?? {}
        return { ...one, variable: env ?? '', about: schema?.description ?? '' }
      })
      const stale = reloads()[0]?.outcome === 'refused'
      return good({ body: { object: 'config' as const, stale, ...shown, settings } })
    },
  }),
  row({
    method: 'GET',
    path: '/config/text',
    summary: 'Write the running configuration as the text of headgate.yaml',
    about:
      'Secrets are references to variables; keys of clients are digests. The text is loaded in the environment of this process and compared with what runs: if anything would be lost, there is no text.',
    role: 'admin',
    scope: 'all',
    answer: z.strictObject({
      object: z.literal('config_text'),
      text: z.string().nullable(),
      variables: z
        .array(z.string())
        .describe('Variables of secrets that the text names and the environment does not have'),
      differences: z.array(z.string()).describe('Why there is no text'),
    }),
    example: {
      answer: {
        object: 'config_text',
        text: 'providers:\n  openai: {}\nroutes:\n  fast:\n    targets:\n      - openai/gpt-5-mini\n',
        variables: [],
        differences: [],
      },
    },
    async handle({ configuration, control }) {
      const { text, variables, differences } = await configText(configuration, control.directory())
      return good({
        body: {
          object: 'config_text' as const,
          text,
          variables: [...variables],
          differences: [...differences],
        },
      })
    },
  }),
  row({
    method: 'GET',
    path: '/config/problems',
    summary: 'List the problems of the configuration on disk',
    about: 'Problems of the last reload, if it was refused, and warnings of the running configuration.',
    role: 'viewer',
    scope: 'all',
    answer: z.strictObject({
      object: z.literal('config_problems'),
      since: time.nullable(),
      problems: z.array(problem),
      warnings: z.array(z.string()),
    }),
    example: { answer: { object: 'config_problems', since: null, problems: [], warnings: [] } },
    handle({ configuration }) {
      const [latest] = configuration.reloads()
      const refused = latest?.outcome === 'refused' ? latest : undefined
      return good({
        body: {
          object: 'config_problems' as const,
          since: refused ? new Date(refused.at).toISOString() : null,
          problems: refused?.problems.map(problemAnswer) ?? [],
          warnings: [...configuration.warnings()],
        },
      })
    },
  }),
  row({
    method: 'GET',
    path: '/config/reloads',
    summary: 'List the last reloads, newest first',
    role: 'viewer',
    scope: 'all',
    answer: listOf(reloadEntry),
    example: {
      answer: {
        object: 'list',
        data: [{ at: '2026-11-23T10:00:00.000Z', outcome: 'refused', changes: [], warnings: [], problems: [PROBLEM] }],
        has_more: false,
        next: null,
      },
    },
    handle: ({ configuration }) =>
      good({
        body: {
          object: 'list' as const,
          data: configuration.reloads().map(reloadAnswer),
          has_more: false,
          next: null,
        },
      }),
  }),
  row({
    method: 'GET',
    path: '/config/history',
    summary: 'List the texts of headgate.yaml that were accepted, newest first',
    about:
      'The last 50 that changed something, of this data folder. `folder` has them and `file` is the configuration file, both on the machine of the gateway.',
    role: 'admin',
    scope: 'all',
    answer: z.strictObject({ ...listOf(version).shape, folder: z.string(), file: z.string() }),
    example: {
      answer: {
        object: 'list',
        data: [VERSION],
        has_more: false,
        next: null,
        folder: '/var/lib/headgate/config-history',
        file: '/etc/headgate/headgate.yaml',
      },
    },
    async handle({ configuration: { running, sources } }) {
      const { dir } = running().settings.data
      const data = [...(await configVersions(dir))]
      const { file } = pathsOf(sources.folder, await readEnvironment(sources))
      const places = { folder: resolve(historyFolder(dir)), file: resolve(file) }
      return good({ body: { object: 'list' as const, data, has_more: false, next: null, ...places } })
    },
  }),
  row({
    method: 'GET',
    path: '/config/history/{id}',
    summary: 'Show a text of headgate.yaml that was accepted',
    about: 'Secrets were not kept: in their place are references to variables whose names begin with `HIDDEN_`.',
    role: 'admin',
    scope: 'all',
    params: id,
    answer: z.strictObject({ ...version.shape, object: z.literal('config_version'), text: z.string() }),
    example: {
      params: { id: VERSION.id },
      answer: { object: 'config_version', ...VERSION, text: 'circuit:\n  timeout: 20000\n' },
    },
    async handle({ configuration }, { params }) {
      const { dir } = configuration.running().settings.data
      const found = (await configVersions(dir)).find((one) => one.id === params.id)
      const text = found ? await configVersion(dir, found.id) : null
      if (!found || text === null) return bad(fail('not_found', `No version has the ID ${params.id}.`))
      return good({ body: { object: 'config_version' as const, ...found, text } })
    },
  }),
  row({
    method: 'GET',
    path: '/config/schema',
    summary: 'Show the JSON Schema of headgate.yaml',
    about: 'For editors: names, values and descriptions of the members.',
    role: 'viewer',
    scope: 'any',
    answer: z.looseObject({ type: z.literal('object'), properties: z.record(z.string(), z.unknown()) }),
    example: {
      answer: { type: 'object', properties: { strategy: { type: 'string', enum: ['priority', 'weighted'] } } },
    },
    async handle() {
      const { fileSchema } = await import('../../../config/file-schema.ts')
      const { properties = {} } = jsonSchemaOf(fileSchema)
      return good({ body: { type: 'object' as const, properties: { ...properties }, additionalProperties: false } })
    },
  }),
  row({
    method: 'POST',
    path: '/config/check',
    summary: 'Check a configuration file without applying it',
    about:
      'The body is the text of headgate.yaml. It is read as at a start, with the environment of this process; variables and key files that it names are replaced by placeholders, so that no answer contains their values. `changes` are the settings that would differ from the running ones; `routes` are the routes whose targets would differ now; they are not compared for files of more than 2000 values. At most 200 problems are listed. A text that needs more than 10 s has a problem. Nothing is sent upstream.',
    role: 'operator',
    scope: 'all',
    body: 'text',
    answer: z.strictObject({
      object: z.literal('config_check'),
      ok: z.boolean(),
      problems: z.array(problem),
      warnings: z.array(z.string()),
      changes: z.array(z.string()).describe('Paths of what would change; empty if the file has problems'),
      routes: z
        .array(z.strictObject({ model: z.string(), before: targets, after: targets }))
        .describe('Routes with other targets for a plain question, and `auto`; empty if the file has problems'),
    }),
    example: {
      body: 'circuit:\n  timeout: 20000\n',
      answer: {
        object: 'config_check',
        ok: true,
        problems: [],
        warnings: [],
        changes: ['circuit.timeout'],
        routes: [{ model: 'quick', before: ['groq/llama-3.3-70b'], after: ['openai/gpt-5-mini'] }],
      },
    },
    async handle({ configuration, gateway }, { body }) {
      const checked = await checkConfig(body, configuration)
      if (!checked.ok) return checked
      const { ok, problems, warnings, changes, config } = checked.value
      const routes = config === null ? [] : await changedRoutes(gateway, config)
      return good({
        body: {
          object: 'config_check' as const,
          ok,
          problems: problems.map(problemAnswer),
          warnings: [...warnings],
          changes: [...changes],
          routes: routes.map(({ model, before, after }) => ({
            model,
            before: before && [...before],
            after: after && [...after],
          })),
        },
      })
    },
  }),
]
