/** The search of the documentation: what people ask leads to the page that answers it. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { siteFiles } from '../../dashboard/site/files.ts'
import { excerptOf, search, wordsOf } from '../../dashboard/site/find.js'
import type { SectionText } from '../../dashboard/site/section-texts.ts'
import { KINDS } from '../../src/core/failure.ts'

const files = siteFiles(join(import.meta.dirname, '..', '..'))
const sections: readonly SectionText[] = JSON.parse(files.get('sections.json') ?? '[]')

/** Results that a reader looks at. */
const SEEN = 5

/** Questions of an operator who had no other help, and the pages that answer them. */
const QUESTIONS: readonly (readonly [question: string, answer: RegExp])[] = [
  ['20 dollars a month per developer', /^keys-and-budgets/],
  ['how do I send 10 % to a new model', /^routing/],
  ['canary', /^routing/],
  ['see the prompts of a request', /^(?:observability|dashboard|configuration)/],
  ['behind nginx', /^deploy\/behind-a-balancer/],
  ['own certificate authority', /^deploy\/network/],
  ['corporate HTTP proxy', /^deploy\/network/],
  ['HTTPS_PROXY', /^deploy\/network/],
  ['send logs to Datadog', /^(?:deploy\/logs|observability)/],
  ['Loki', /^(?:deploy\/logs|observability)/],
  ['CloudWatch', /^(?:deploy\/logs|observability)/],
  ['Claude Code on Bedrock', /^(?:clients\/claude|routing)/],
  ['update the prices', /^usage-and-cost/],
  ['disable a provider now', /^(?:routing|troubleshooting|providers|reliability)/],
  ['what happens if Postgres dies', /^deploy\/stores/],
]

describe('the search', () => {
  test('has every heading of every page, with its text', () => {
    assert.ok(sections.length > 250, String(sections.length))
    assert.ok(
      sections.every(({ anchor, heading, text }) => anchor !== '' && !/<(?:td|pre|strong)\b/.test(heading + text)),
    )
    for (const { file } of sections) assert.ok(files.has(file), file)
  })

  for (const [question, answer] of QUESTIONS)
    test(`answers "${question}"`, () => {
      const found = search(sections, question).slice(0, SEEN)
      assert.ok(
        found.some(({ file }) => answer.test(file)),
        found.map(({ file, heading }) => `${file}: ${heading}`).join('\n'),
      )
    })

  test('finds every error code', () => {
    for (const { code } of Object.values(KINDS).filter((row) => row.code.includes('_')))
      assert.ok(
        search(sections, code)
          .slice(0, SEEN)
          .some(({ text, heading }) => text.includes(code) || heading.includes(code)),
        code,
      )
  })

  test('puts headings before texts, and sections with all the words first', () => {
    const of = (heading: string, text: string) => ({ file: 'a.html', anchor: 'a', page: 'A', heading, text })
    const [both, title, plain] = [of('x', 'red green'), of('Red', ''), of('y', 'red')]
    assert.deepEqual(search([plain, title, both], 'red green'), [both, title, plain])
    assert.deepEqual(search([plain], 'blue'), [])
    assert.deepEqual(search([plain], ''), [])
  })

  test('ignores words that say nothing, but not if there are no others', () => {
    assert.deepEqual(wordsOf('How do I set the budgets?'), ['set', 'budgets'])
    assert.deepEqual(wordsOf('who is it'), ['who', 'is', 'it'])
  })

  test('shows the text around the first word', () => {
    const text = `${'before '.repeat(40)}budget ${'after '.repeat(80)}`
    const excerpt = excerptOf(text, 'budgets')
    assert.match(excerpt, /^… before .* budget after .* …$/)
    assert.ok(excerpt.length < 300)
    assert.equal(excerptOf('short', 'none'), 'short')
  })
})
