import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SpokenWords } from './spoken-words.ts'

/** Fragments: those of the transcript begin with `~`. */
const cases: readonly (readonly [name: string, fragments: readonly string[], written: string])[] = [
  ['text only', ['Hel', 'lo', ' there.'], 'Hello there.'],
  ['a transcript only', ['~Hel', '~lo', '~ there.'], 'Hello there.'],
  ['the text first', ['Hel', 'lo there.', '~Hello', '~ there.'], 'Hello there.'],
  ['the transcript first', ['~Hello', '~ there.', 'Hel', 'lo there.'], 'Hello there.'],
  ['alternating, the text ahead', ['Hello', '~He', ' the', '~llo th', 're.', '~ere.'], 'Hello there.'],
  ['alternating, each ahead in turn', ['Hel', '~Hello th', 'lo there', '~ere.', '.'], 'Hello there.'],
  ['one fragment each', ['Hello there.', '~Hello there.'], 'Hello there.'],
  ['white space around', ['Hello there.', '~\n Hello', '~ there.\n'], 'Hello there.'],
  ['leading white space of the first', ['\n Hello', '~Hello', ' there.', '~ there.'], '\n Hello there.'],
  ['a longer transcript', ['Hello', '~Hello there.'], 'Hello there.'],
  ['other words', ['Another', '~Hello', '~ there.'], 'AnotherHello there.'],
  ['other words after a few equal ones', ['Hello you.', '~Hello', '~ there.'], 'Hello you.Hello there.'],
  ['nothing', ['', '~'], ''],
]
for (const [name, fragments, written] of cases)
  test(`spoken words: ${name}`, () => {
    const words = new SpokenWords()
    const out = fragments.map((one) => (one[0] === '~' ? words.transcript(one.slice(1)) : words.text(one)))
    assert.equal(out.join(''), written)
  })

test('spoken words: equal words are written once however they are cut', () => {
  const words = 'Hello there, you.'
  for (let one = 0; one <= words.length; one++)
    for (let other = 0; other <= words.length; other++)
      for (const order of ['tTsS', 'tsTS', 'sStT', 'stST', 'tsST', 'stTS']) {
        const parts = {
          t: ['text', words.slice(0, one)],
          T: ['text', words.slice(one)],
          s: ['transcript', words.slice(0, other)],
          S: ['transcript', words.slice(other)],
        } as const
        const spoken = new SpokenWords()
        const out = [...order].map((name) => {
          const [voice, fragment] = parts[name as keyof typeof parts]
          return spoken[voice](fragment)
        })
        assert.equal(out.join(''), words, `${order} cut at ${one} and ${other}`)
      }
})

test('spoken words: long answers are compared in linear time, and no longer after a limit', () => {
  const spoken = new SpokenWords()
  const half = 'word '.repeat(30_000)
  assert.equal(spoken.text(half), half)
  assert.equal(spoken.transcript(half), half)
})
