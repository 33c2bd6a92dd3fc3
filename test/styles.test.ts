/**
 * An API style is named in the folder of its format only. All other code asks for a fact: a member of `ClientProtocol` or
 * `UpstreamProtocol`. So a new style needs no change in code that would compare its name.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { clientProtocolByStyle, protocols, upstreamProtocols } from '../src/protocols/index.ts'

const root = join(import.meta.dirname, '..')

/** Files that may compare names, each with its reason. */
const ALLOWED: { readonly [file: string]: string } = {
  'src/protocols/shared/reasoning-members.ts': 'labels of packed reasoning, a format of its own',
  'src/protocols/client-parts/thinking-signatures.ts': 'the same labels',
  'src/policy/reply/final-error.ts': 'names a format to the operator; policy does not import the formats',
  'dashboard/src/example-body.ts': 'writes an example in each style',
  'dashboard/src/playground/request.ts': 'reads a kept request of each style back into the form',
}

const NAMES = [...Object.keys(protocols), ...Object.keys(upstreamProtocols)].filter((name) => name.includes('-'))
const STYLES = [...clientProtocolByStyle.keys(), ...Object.values(upstreamProtocols).map(({ style }) => style)]

const either = (names: readonly string[]): string => `'(?:${[...new Set(names)].join('|')})'`
/** A comparison with a name; short names are words of other things too, so the other side must be a style. */
const COMPARISONS = [
  new RegExp(String.raw`(?:[!=]==\s*|case\s+|\b(?:has|get|includes)\()${either(NAMES)}`),
  new RegExp(String.raw`(?:style|protocol|origin)(?:\??\.(?:name|style|value))?\s*[!=]==\s*${either(STYLES)}`, 'i'),
  new RegExp(String.raw`\bcase\s+${either([...clientProtocolByStyle.keys()])}`),
]

const isOwn = (file: string, line: string): boolean =>
  Object.keys(upstreamProtocols).some((name) => file.startsWith(`src/protocols/${name}/`) && line.includes(`'${name}'`))

test('styles: no code outside the folder of a format compares a style with its name', () => {
  const files = globSync(['src/**/*.ts', 'dashboard/src/**/*.{ts,tsx}'], { cwd: root })
  const found = files
    // A provider's quirks are of a format that it speaks.
    .filter((file) => !file.endsWith('.test.ts') && !file.startsWith('src/providers/'))
    .flatMap((file) =>
      readFileSync(join(root, file), 'utf8')
        .split('\n')
        .flatMap((line, at) =>
          COMPARISONS.some((one) => one.test(line)) && !isOwn(file, line) ? [[file, `${at + 1}: ${line.trim()}`]] : [],
        ),
    )
  const wrong = found.filter(([file = '']) => ALLOWED[file] === undefined).map((one) => one.join(':'))
  assert.deepEqual(wrong, [], 'add a member to ClientProtocol or UpstreamProtocol instead')
  const unused = Object.keys(ALLOWED).filter((file) => found.every(([other]) => other !== file))
  assert.deepEqual(unused, [], 'allowed, but without a comparison')
})
