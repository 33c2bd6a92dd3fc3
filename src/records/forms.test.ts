/**
 * A team, key, budget or price has several forms: the body of the admin API, the row of the database, the entry of
 * headgate.yaml, and the answer that the API, the command line and the dashboard show. Whatever form it was made in, it is
 * the same in all. The values are drawn from the schemas, so a new member is covered.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { loaded } from '../../test/support/config.ts'
import { fromSchema } from '../../test/support/from-schema.ts'
import { type AccountRecords, type ClientKey, type FileAccounts, FULL_ACCESS, NO_ACCOUNTS } from '../core/accounts.ts'
import type { JsonObject } from '../core/json.ts'
import { buildDirectory } from '../policy/accounts/directory.ts'
import { accountsYaml } from './entities/account-yaml.ts'
import { BODIES } from './entities/bodies.ts'
import { BUDGET } from './entities/budget.ts'
import { KEY, KEY_BODY } from './entities/key.ts'
import { PRICE } from './entities/price.ts'
import { TEAM } from './entities/team.ts'
import { ControlDatabase } from './store/control-database.ts'
import { readStoredAccounts } from './store/read-accounts.ts'
import type { ControlOperation } from './store/record-operations.ts'
import { completed, recordsOf } from './store/records.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-forms-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const SETTINGS = { pepper: null, configured: [], auditDays: 365 }
const PERSON = { kind: 'operator', id: 'root', name: 'root' }
const CONTEXT = { actor: PERSON, from: null, requestId: null, teams: null, idempotencyKey: null }

/** A database of records beside those of a file. */
const open = async (path: string) => {
  const database = await ControlDatabase.open({ folder: path, database: null }, { ...SETTINGS, file: NO_ACCOUNTS })
  after(() => database.close())
  const run = async (operation: ControlOperation): Promise<JsonObject> => {
    const result = await database.run(operation, CONTEXT, 1_795_780_800_123)
    if (result.ok) return result.value
    return assert.fail(JSON.stringify([operation, result.error]))
  }
  return { run, use: (file: FileAccounts) => database.apply({ ...SETTINGS, file }) }
}

/** The file with these records, as the loader reads it. */
const reload = (records: Partial<AccountRecords>, names: AccountRecords): FileAccounts =>
  loaded({
    env: { OPENAI_API_KEY: 'k' },
    stored: () => names,
    yaml: `routes: { fast: { targets: [openai] } }\n${accountsYaml(records, buildDirectory(NO_ACCOUNTS, names))}`,
  }).config.accounts

const LISTS = { team: 'teams', key: 'keys', budget: 'budgets', price: 'prices' } as const
type Kind = keyof typeof LISTS

/** Without what only the place decides where a record is stored, and with times and amounts in one spelling. */
const placed = (shown: JsonObject): unknown => {
  const { managed, rev, created_by, created_at, last_used_at, prefix, secret, now, ...record } = shown
  const { amount, effective_from, ...rest } = record
  const always = Date.parse(String(effective_from)) === 0 ? null : effective_from
  const spelled = { ...rest, amount: amount && Number(amount), effective_from: always }
  return JSON.parse(JSON.stringify(spelled), (_, value) =>
    typeof value === 'string' && /^\d{4}-\d\d-\d\dT[^/]*$/.test(value) ? new Date(value).toISOString() : value,
  )
}
const common = ({ managed, ...record }: { readonly managed: string }) => record

const SHOWN = {
  team: TEAM,
  key: KEY,
  budget: BUDGET.omit({ now: true }),
  price: PRICE,
}

let count = 0

const KINDS: readonly Kind[] = ['team', 'key', 'budget', 'price']

for (const kind of KINDS)
  test(`forms: a ${kind} made by the API is equal in the database, in the file and in both answers`, async () => {
    const path = join(folder, kind)
    const { run } = await open(path)
    const other = await open(join(folder, `${kind}-file`))
    const idOf = async (of: Kind, body: JsonObject) => String((await run({ do: 'create', kind: of, body })).id)
    const team = await idOf('team', { name: 'search' })
    // Names of keys are unique in their team only.
    const [key, twin] = [await idOf('key', { name: 'ci', team }), await idOf('key', { name: 'ci' })]
    const references = fc.constantFrom(null, [key], [twin], [key, twin])
    await fc.assert(
      fc.asyncProperty(
        fromSchema(BODIES[kind]),
        fc.constantFrom(team, 'default'),
        references,
        async (drawn, owner, keys) => {
          const given = drawn as JsonObject
          const body = {
            ...given,
            ...(kind !== 'price' && { name: `n${++count}` }),
            ...(kind === 'key' && { team: owner }),
            ...(typeof given.defaultRoute === 'string' && { defaultRoute: 'fast' }),
            ...(kind === 'budget' && {
              appliesTo: { ...(given.appliesTo as JsonObject), teams: keys && [team], keys },
            }),
          }
          const made = await run({ do: 'create', kind, body })
          const id = String(made.id)
          try {
            const stored = readStoredAccounts(path)
            assert.ok(stored)
            const { records } = stored
            const list: readonly { readonly id: string; readonly managed: string }[] = records[LISTS[kind]]
            const record = list.find((one) => one.id === id)
            assert.ok(record)
            const file = reload({ [LISTS[kind]]: [record] }, records)
            // References of the file are names or IDs.
            const resolved = buildDirectory(file, records)
            const read = kind === 'price' ? file.prices[0] : resolved[LISTS[kind]].get(id)
            assert.ok(read)
            assert.deepEqual(common(read), common(structuredClone(record)))
            other.use({ ...file, [LISTS[kind]]: [read] })
            const shown = await other.run({ do: 'get', kind, id })
            const { secret: _, ...answer } = made
            assert.deepEqual(placed(shown), placed(answer))
            for (const one of [shown, answer]) SHOWN[kind].parse(one)
          } finally {
            await run({ do: 'delete', kind, id, rev: null })
          }
        },
      ),
      { numRuns: 30 },
    )
  })

test('forms: a row or a snapshot without a member, as an earlier version wrote it, has its default', () => {
  const { logBodies, cache, ...earlier } = KEY_BODY.parse({ name: 'a', cache: { ttl: 5 } })
  const { requestControl, ...rules } = cache ?? {}
  const doc = JSON.stringify({ ...earlier, cache: rules, access: { models: ['a'] } })
  const row = { id: 'key_a', kind: 'key', team: 'team_default', name: 'a', status: 'active', expires: null, doc }
  const { records } = recordsOf([{ ...row, rev: 1, created: 1, created_by: 'x', changed: 1 }], [])
  const [key] = records.keys
  assert.deepEqual(key?.cache, { ...rules, requestControl: true })
  assert.deepEqual([key?.logBodies, key?.access], [false, { ...FULL_ACCESS, models: ['a'] }])
  const { logBodies: _, ...snapshot } = { ...key, logBodies: undefined }
  const { keys } = completed({ ...NO_ACCOUNTS, keys: [snapshot as unknown as ClientKey] })
  assert.deepEqual(keys, records.keys)
})
