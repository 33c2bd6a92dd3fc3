import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pathSegment } from './path-segment.ts'

for (const [name, step] of [
  ['gpt-5.2', 'gpt-5.2'],
  ['org/model:v1', 'org%2Fmodel%3Av1'],
  ['..a', '..a'],
  ['...', '...'],
  ['a?b#c', 'a%3Fb%23c'],
  ['\ud83d', '%EF%BF%BD'],
  ['🦊', '%F0%9F%A6%8A'],
  ['.', '%252E'],
  ['..', '%252E%252E'],
  ['%2e%2e', '%252e%252e'],
] as const)
  test(`path segment: ${JSON.stringify(name)}`, () => {
    assert.equal(pathSegment(name), step)
    const { pathname } = new URL(`http://x.test/a/${pathSegment(name)}/b`)
    assert.equal(pathname, `/a/${step}/b`, 'remains one segment')
  })
