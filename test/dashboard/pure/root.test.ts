import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rootOf } from '../../../dashboard/src/root.ts'

for (const [script, root] of [
  ['http://localhost:3000/dashboard/assets/main-a.js', '/'],
  ['https://tools.example/team/llm/dashboard/assets/shared-a.js', '/team/llm/'],
  ['https://tools.example/dashboard/assets/dashboard/assets/main-a.js', '/dashboard/assets/'],
  ['https://tools.example/other/main-a.js', '/'],
  ['file:///clone/dashboard/assets/root.ts', '/'],
] as const)
  test(`the root of ${script} is ${root}`, () => assert.equal(rootOf(script), root))
