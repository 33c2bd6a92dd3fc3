import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mergePatch, patchBetween } from './merge-patch.ts'

const STATES = [
  {},
  { a: 1, b: [1, { c: 2 }], d: { e: 1, f: { g: true } } },
  { a: 2, d: { f: { h: 'x' } } },
  { b: [], d: 'text' },
  { d: { e: {} } },
]

for (const [from, before] of STATES.entries())
  for (const [to, after] of STATES.entries())
    test(`the patch between ${from} and ${to} gives ${to}`, () =>
      assert.deepEqual(mergePatch(before, patchBetween(before, after)), after))
