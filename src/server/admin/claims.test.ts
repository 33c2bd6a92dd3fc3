import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load } from '../../../test/support/config.ts'
import { gatewayHarness } from '../../../test/support/gateway.ts'
import { NO_ACCOUNTS } from '../../core/accounts.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import { type AccountChange, checkChange, claimStatesOf, proofInputOf } from './claims.ts'

const { gateway: still } = gatewayHarness([], () => {})
const gateway = { ...still, world: { ...still.world, turn: (run: () => void) => void setImmediate(run) } }

/** Keys of `health` may reach Europe only, by the requirement of the team. */
const depsOf = (onFailure: string, claims: readonly string[]) => {
  const loaded = load({
    env: {},
    yaml: `providers:
  openai: { keys: [k], models: [m], facts: { region: us, retention: 30 } }
  mistral: { keys: [k], models: [m], facts: { region: eu, retention: 0 } }
teams:
  health: { id: team_healthhealth, require: { region: [eu] } }
  open: { id: team_openopenopen }
keys:
  ci: { id: key_cicicicicici, secret: a-secret-of-enough-characters, team: health }
  loose: { id: key_looselooseab, secret: b-secret-of-enough-characters, team: open }
claims: ${JSON.stringify(claims)}
prove: { onFailure: ${onFailure} }
`,
  })
  assert.ok(loaded.ok, JSON.stringify(loaded))
  const { config } = loaded
  const { teams, ...others } = buildDirectory(config.accounts, NO_ACCOUNTS)
  // Records of the file cannot be changed.
  const own = <T extends object>(records: ReadonlyMap<string, T>) =>
    new Map([...records].map(([id, one]) => [id, { ...one, managed: 'api' as const }]))
  const directory = { ...others, teams: own(teams), keys: own(others.keys) }
  return {
    configuration: {
      running: () => config,
      sources: { env: {}, folder: '', providers: new Map() },
      warnings: () => [],
      reloads: () => [],
      reload: async () => {},
    },
    gateway,
    directory: () => directory,
  }
}

const CLAIMS = ['team=health: region in eu', 'key=ci: region in eu']
const change = (kind: 'team' | 'key', id: string | null, body: object): AccountChange => ({ kind, id, body })
const HEALTH = 'team_healthhealth'
const CI = 'key_cicicicicici'

const CASES: readonly (readonly [string, AccountChange, RegExp | null])[] = [
  ['a key that the requirement of its team binds', change('key', null, { name: 'new', team: 'health' }), null],
  ['a key of another team', change('key', null, { name: 'new', team: 'open' }), null],
  [
    'a team without the requirement',
    change('team', HEALTH, { require: { region: null } }),
    /team=health: .*key ci asks/,
  ],
  ['a stricter team', change('team', HEALTH, { require: { region: ['eu-de'] } }), null],
  ['a key that moves to the team', change('key', 'key_looselooseab', { team: 'health' }), null],
  ['a key that leaves the team', change('key', CI, { team: 'open' }), /key=ci: .*region us/],
  ['a team with another name', change('team', HEALTH, { name: 'care' }), /"health", which does not exist/],
  ['a new team', change('team', null, { name: 'more' }), null],
  ['a body that is not valid', change('team', HEALTH, { require: { region: 5 } }), null],
  ['a key that does not exist', change('key', 'key_nonenonenone', { team: 'open' }), null],
]

for (const [name, made, broken] of CASES)
  test(`claims: ${name} is ${broken ? 'refused, or warned of' : 'permitted'}`, async () => {
    const refused = await checkChange(depsOf('refuse', CLAIMS), { teams: null }, made)
    if (!broken) return assert.deepEqual(refused, { ok: true, value: null })
    assert.ok(!refused.ok)
    assert.equal(refused.failure.code, 'claim_fails')
    assert.match(refused.failure.message, broken)
    const warned = await checkChange(depsOf('warn', CLAIMS), { teams: null }, made)
    assert.match(warned.ok ? (warned.value ?? '') : '', broken)
  })

test('claims: one that fails already prevents no change', async () => {
  const deps = depsOf('refuse', ['team=open: region in eu'])
  const made = change('key', 'key_looselooseab', { tags: { app: 'a' } })
  assert.deepEqual(await checkChange(deps, { teams: null }, made), { ok: true, value: null })
})

test('claims: an administrator of another team learns nothing of a claim', async () => {
  const made = change('team', HEALTH, { require: { region: null } })
  assert.deepEqual(await checkChange(depsOf('refuse', CLAIMS), { teams: ['team_openopenopen'] }, made), {
    ok: true,
    value: null,
  })
})

test('claims: the states of all', async () => {
  const deps = depsOf('warn', [])
  const states = await claimStatesOf(deps, proofInputOf(deps), [
    ...CLAIMS,
    'team=open: region in eu',
    'team=no: retention=0',
  ])
  assert.deepEqual(
    states.map(({ state }) => state),
    ['holds', 'holds', 'fails', 'invalid'],
  )
})
