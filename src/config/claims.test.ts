import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load } from '../../test/support/config.ts'
import { type AccountRecords, type ClientKey, FULL_ACCESS, NO_ACCOUNTS, NO_LIMITS } from '../core/accounts.ts'
import { NO_REQUIRE } from '../core/data-policy.ts'
import { withClaims } from './load.ts'
import { problemLine } from './problem.ts'

const yaml = (more: string, claim = 'team=health: region in eu; retention=0') => `providers:
  openai: { keys: [k], models: [m], facts: { region: us, retention: 30 } }
  mistral: { keys: [k], models: [m], facts: { region: eu, retention: 0 } }
teams: { health: { require: { region: [eu], retention: 0 } } }
keys: { ci: { secret: a-secret-of-enough-characters, team: health } }
claims:
  - "${claim}"
${more}`

const STORED_KEY: ClientKey = {
  id: 'key_storedstored',
  name: 'loose',
  team: 'team_default',
  status: 'active',
  secrets: [],
  createdAt: 0,
  expiresAt: null,
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  defaultRoute: null,
  cache: null,
  logBodies: false,
  tags: {},
  managed: 'api',
}

const check = async (text: string, stored: AccountRecords | null = NO_ACCOUNTS) => {
  const loaded = await withClaims(load({ env: {}, yaml: text }), { stored: () => stored })
  return loaded.ok
    ? { problems: [], warnings: loaded.warnings.filter((one) => one.includes('claim')) }
    : { problems: loaded.problems.map(problemLine), warnings: [] }
}

const REFUSE = 'prove: { onFailure: refuse }'

test('claims: one that holds', async () => {
  assert.deepEqual(await check(yaml(REFUSE)), { problems: [], warnings: [] })
})

test('claims: one that a stored key breaks is a warning, or refused', async () => {
  const stored = { ...NO_ACCOUNTS, keys: [STORED_KEY] }
  const claim = 'all: region in eu'
  const warned = await check(yaml('', claim), stored)
  assert.equal(warned.warnings.length, 1)
  assert.match(
    warned.warnings[0] ?? '',
    /^headgate\.yaml:7:5: claims: found the claim "all: region=eu", which does not hold: key loose asks .*region us/,
  )
  const refused = await check(yaml(REFUSE, claim), stored)
  assert.deepEqual(refused.problems, warned.warnings)
})

test('claims: one about a team that does not exist does not hold', async () => {
  const { problems } = await check(yaml(REFUSE, 'team=healht: region in eu'))
  assert.match(problems.join(), /names the team "healht", which does not exist/)
})

test('claims: they are not checked without the stored keys', async () => {
  const { problems, warnings } = await check(yaml(REFUSE, 'key=gone: region in eu'), null)
  assert.deepEqual(problems, [])
  assert.match(warnings.join(), /stored teams and keys cannot be read/)
})

test('claims: a text that is no claim is a problem of the file', () => {
  const loaded = load({ env: {}, yaml: yaml('', 'team=health; region') })
  assert.match(
    loaded.ok ? '' : loaded.problems.map(problemLine).join(),
    /^headgate\.yaml:7:5: claims\.0: .*no colon.*rite it as/,
  )
})
