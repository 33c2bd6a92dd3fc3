/**
 * Runs test files that are written for Jest, as far as the generated ones of openai-node use it, and prints a line of JSON for each
 * test. Arguments: the folder. `TEST_API_KEY` replaces the key of the tests, which has spaces.
 */
import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

type Run = () => unknown
type Case = { readonly file: string; readonly name: string; readonly run: Run }

const [, , folder = ''] = process.argv
const cases: Case[] = []
const groups: string[] = []
let file = ''

const describe = (name: string, run: Run) => {
  groups.push(name)
  run()
  groups.pop()
}
const test = Object.assign(
  (name: string, run: Run) => void cases.push({ file, name: [...groups, name].join(': '), run }),
  // An upload that their fake server cannot read.
  { skip: () => {} },
)

const fails = (run: Run): boolean => {
  try {
    run()
    return false
  } catch {
    return true
  }
}
const matchers = (value: unknown, not: boolean) => {
  const check = (run: Run) => (not ? assert.ok(fails(run)) : run())
  return {
    toBe: (other: unknown) => check(() => assert.ok(Object.is(value, other), `is not ${other}`)),
    toEqual: (other: unknown) => check(() => assert.deepEqual(value, other)),
    toBeInstanceOf: (type: new () => unknown) => check(() => assert.ok(value instanceof type, `is no ${type.name}`)),
  }
}
const thrownBy = async (promise: unknown): Promise<unknown> => {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}
const expect = (value: unknown) => ({
  ...matchers(value, false),
  not: matchers(value, true),
  rejects: {
    toThrow: async (type: new () => unknown) => {
      const error = await thrownBy(value)
      if (!(error instanceof type)) throw error
    },
    toThrowErrorMatchingInlineSnapshot: () => thrownBy(value),
  },
})
// The tests are JavaScript modules that find these in their global scope.
Object.assign(globalThis, { describe, test, it: test, expect })

const { fetch: send } = globalThis
globalThis.fetch = (input, init) => {
  const headers = new Headers(init?.headers)
  headers.set('authorization', `Bearer ${process.env.TEST_API_KEY}`)
  return send(input, { ...init, headers })
}

for (file of globSync('**/*.test.ts', { cwd: folder }).sort()) {
  // The signatures of webhooks need no server, and more of Jest.
  if (file !== 'webhooks.test.ts') await import(pathToFileURL(join(folder, file)).href)
}
for (const { file, name, run } of cases) {
  const error = await Promise.resolve()
    .then(run)
    .then(
      () => null,
      (error: Error) => error.message,
    )
  process.stdout.write(`${JSON.stringify({ file, name, error })}\n`)
}
