import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingRequirement } from './public-issuers.ts'

const GITHUB = 'https://token.actions.githubusercontent.com'

for (const [name, issuer, require, missing] of [
  ['a rule for everybody', GITHUB, [], true],
  ['a rule for an enterprise', `${GITHUB}/corp`, [], true],
  ['the audience only', GITHUB, [['aud', ['headgate']]], true],
  ['any value', GITHUB, [['repository', ['**']]], true],
  ['any value as an alternative', GITHUB, [['repository', ['corp/*', '*']]], true],
  ['one owner', GITHUB, [['repository_owner_id', ['12345']]], false],
  ['an issuer of one company', 'https://corp.okta.com', [], false],
  ['an issuer with a similar name', `${GITHUB}.corp.example`, [], false],
] as const)
  test(`public issuers: ${name}`, () =>
    assert.equal(missingRequirement({ keys: { issuer }, require }) !== null, missing))
