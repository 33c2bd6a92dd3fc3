/** An access list means the same in headgate.yaml, over the admin API and after an export: for a team and for a key. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { loaded } from '../../../test/support/config.ts'
import { openControl } from '../../../test/support/control.ts'
import { CONTROL_ENGINES, type ControlEngine, readPlace } from '../../../test/support/control-engines.ts'
import { type AccessList, type Client, NO_ACCOUNTS } from '../../core/accounts.ts'
import type { JsonObject } from '../../core/json.ts'
import { clientOf } from '../../policy/accounts/client.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import { allowsAddress, allowsName, allowsTarget, keyAccessRules } from '../../policy/accounts/key-access.ts'
import { accountsYaml } from '../entities/account-yaml.ts'
import type { ControlPlace } from './record-operations.ts'

const DIMENSIONS = ['models', 'routes', 'providers', 'styles', 'ips'] as const
type Dimension = (typeof DIMENSIONS)[number]

/** Two names of each dimension: the lists below are about the first. */
const NAMES: { readonly [dimension in Dimension]: readonly [name: string, other: string] } = {
  models: ['gpt-5', 'claude-opus-5'],
  routes: ['fast', 'slow'],
  providers: ['openai', 'anthropic'],
  styles: ['chat', 'messages'],
  ips: ['192.0.2.7', '198.51.100.1'],
}

type Form = 'missing' | 'null' | 'nothing' | 'list' | 'denied'
/** What a form of a list is in a dimension, and which of the two names it allows. */
const FORMS: {
  readonly [form in Form]: {
    readonly list: (names: readonly [string, string], all: string) => AccessList | undefined
    readonly allows: readonly [name: boolean, other: boolean]
  }
} = {
  missing: { list: () => undefined, allows: [true, true] },
  null: { list: () => null, allows: [true, true] },
  nothing: { list: () => [], allows: [false, false] },
  list: { list: ([name]) => [name], allows: [true, false] },
  denied: { list: ([name], all) => [all, `!${name}`], allows: [false, true] },
}

/** What a client may use of the two names of a dimension. */
const allowed = ({ access }: Pick<Client, 'access'>, dimension: Dimension): readonly boolean[] => {
  const rules = keyAccessRules(access)
  return NAMES[dimension].map((name) => {
    switch (dimension) {
      case 'models':
        return allowsTarget(rules, { requested: null, provider: 'x', model: name })
      case 'providers':
        return allowsTarget(rules, { requested: null, provider: name, model: 'x' })
      case 'ips':
        return allowsAddress(rules, name)
      default:
        return allowsName(rules[dimension], name)
    }
  })
}

type Owner = 'team' | 'key'
type Given = { readonly owner: Owner; readonly access: JsonObject | undefined; readonly name: string }
/** A team and a key of this name, one of which has the access. */
const bodiesOf = ({ owner, access, name }: Given) => {
  const own = access === undefined ? {} : { access }
  return {
    team: { name, ...(owner === 'team' && own) },
    key: { name, team: name, secret: `a-secret-of-the-client-${name}`, ...(owner === 'key' && own) },
  }
}

const isNamed =
  (name: string) =>
  (one: { readonly name: string }): boolean =>
    one.name === name

/** The client with the key of this name. */
const clientIn = (directory: ReturnType<typeof buildDirectory>, name: string): Client => {
  const key = directory.keys.values().find(isNamed(name))
  const team = directory.teams.get(key?.team ?? '')
  assert.ok(key && team)
  return clientOf(key, team)
}

/** The client of a configuration file. */
const clientOfFile = (yaml: string, name: string): Client =>
  clientIn(buildDirectory(loaded({ env: { OPENAI_API_KEY: 'k' }, yaml }).config.accounts, NO_ACCOUNTS), name)

const inFile = (given: Given): Client => {
  const { team, key } = bodiesOf(given)
  const { name, ...rest } = team
  const { name: _, ...entry } = key
  return clientOfFile(JSON.stringify({ teams: { [name]: rest }, keys: { [name]: entry } }), name)
}

for (const { name: engineName, skip, start } of CONTROL_ENGINES)
  describe(`access lists in ${engineName}`, { skip, concurrency: false }, () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-access-'))
    let control: Awaited<ReturnType<typeof openControl>>
    let engine: ControlEngine
    let place: ControlPlace
    before(async () => {
      engine = await start()
      place = engine.newPlace(folder)
      control = await openControl(place)
    })
    after(async () => {
      control?.[Symbol.dispose]()
      await engine?.remove()
      rmSync(folder, { recursive: true, force: true })
    })
    const inDatabase = async (name: string) => {
      const { teams, keys } = (await readPlace(place))?.records ?? NO_ACCOUNTS
      const own = { ...NO_ACCOUNTS, teams: teams.filter(isNamed(name)), keys: keys.filter(isNamed(name)) }
      const directory = buildDirectory(NO_ACCOUNTS, own)
      return { own, directory, client: clientIn(directory, name) }
    }

    // These are the members of the object.
    for (const dimension of DIMENSIONS)
      for (const owner of ['team', 'key'] as const)
        for (const form of Object.keys(FORMS) as Form[])
          test(`${dimension} of a ${owner}, ${form}: the same in the file, in the database and after an export`, async () => {
            const { list, allows } = FORMS[form]
            const value = list(NAMES[dimension], dimension === 'ips' ? '0.0.0.0/0' : '*')
            const name = `${owner}-${dimension}-${form}`
            const given = { owner, access: value === undefined ? undefined : { [dimension]: value }, name }
            const file = inFile(given)
            assert.deepEqual(allowed(file, dimension), allows)

            const { team, key } = bodiesOf(given)
            await control.run({ do: 'create', kind: 'team', body: team })
            await control.run({ do: 'create', kind: 'key', body: key })
            const { client, own, directory } = await inDatabase(name)
            assert.deepEqual(allowed(client, dimension), allows)
            assert.deepEqual(client.access, file.access)
            const id = own[owner === 'team' ? 'teams' : 'keys'][0]?.id ?? ''
            const shown = await control.run({ do: 'get', kind: owner, id })
            assert.deepEqual(shown.access, file.access[owner === 'team' ? 0 : 1])

            assert.deepEqual(clientOfFile(accountsYaml(own, directory), name).access, file.access)
            // Null takes the restriction away.
            await control.run({ do: 'patch', kind: owner, id, patch: { access: { [dimension]: null } }, rev: null })
            assert.deepEqual(allowed((await inDatabase(name)).client, dimension), [true, true])
          })
  })
