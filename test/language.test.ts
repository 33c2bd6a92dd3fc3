/**
 * Keeps code, comments, messages, test names and docs in plain technical English: the usual term for each thing, no people
 * in place of components. CONTRIBUTING.md has the rules; docs/glossary.md has the project's own terms.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '..')

/** Words that stand for a usual term, and the usual term. */
const WORDS: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/\btold\b/i, 'received, reported, logged'],
  [/\bwhoever\b/i, 'the component: client, target, provider'],
  [/\bnobody\b/i, 'no target, no client'],
  [/\bsomebody\b/i, 'a client, another target'],
  [/\banew\b/i, 'again'],
  [/\bhears\b/i, 'receives'],
  [/\bwished\b/i, 'requested, configured'],
  [/\bis asked\b/i, 'is tried, receives the request'],
  [/\bgone on\b/i, 'continued'],
  [/\bthat is none\b/i, 'malformed, invalid'],
  [/\bno more than\b/i, 'at most'],
]

/** Texts of others, quoted as they are: `file: line fragment`. */
const QUOTED: readonly (readonly [file: string, fragment: string])[] = []

const files = globSync(
  [
    '{src,packages,suite,test,scripts,tools,bench,dashboard,docs,examples,bin,.ci,.github}/**/*.{ts,tsx,css,html,mjs,md,yml,yaml}',
    '*.md',
    '.ci/*',
  ],
  {
    cwd: root,
    exclude: ['**/node_modules/**'],
  },
)
  .filter((file) => !/^(?:tools\/node|bench\/results)\//.test(file) && file !== 'test/language.test.ts')
  .toSorted()

test('language: every text uses the usual terms', () => {
  const found: string[] = []
  for (const file of files) {
    const lines = readFileSync(join(root, file), 'utf8').split('\n')
    for (const [index, line] of lines.entries())
      for (const [pattern, instead] of WORDS) {
        if (!pattern.test(line) || QUOTED.some(([name, fragment]) => name === file && line.includes(fragment))) continue
        found.push(
          `${file}:${index + 1}: ${pattern.exec(line)?.[0]}: write ${instead}\n    ${line.trim().slice(0, 120)}`,
        )
      }
  }
  assert.equal(found.length, 0, `${found.length} places\n${found.slice(0, 40).join('\n')}`)
})
