import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerTo } from './command-line.ts'

const SECRET = 'sk-canary-0123456789'

const cases: readonly (readonly [words: string, to: 'stdout' | 'stderr' | null, code: number, text: RegExp])[] = [
  ['', null, 0, /./],
  ['start', null, 0, /./],
  ['--version', 'stdout', 0, /^1\.2\.3\n$/],
  ['--help', 'stdout', 0, /PORT=4000/],
  ['-h', 'stdout', 0, /headgate\.yaml/],
  ['start --help', 'stdout', 0, /headgate --version/],
  ['--port 4000', 'stderr', 2, /no --port\. That is a variable: PORT=… headgate\n$/],
  ['--port=4000', 'stderr', 2, /no --port\. That is a variable: PORT=… headgate\n$/],
  ['start --prot 4000', 'stderr', 2, /no --prot\. That is a variable: PORT=…/],
  ['--circuit-timeout 5000', 'stderr', 2, /CIRCUIT_TIMEOUT=…/],
  ['--circuit_timeout', 'stderr', 2, /CIRCUIT_TIMEOUT=…/],
  [`--openai-api-key=${SECRET}`, 'stderr', 2, /no --openai-api-key\. See headgate --help\.\n$/],
  [SECRET, 'stderr', 2, /no such word\. See headgate --help\.\n$/],
  ['--version now', 'stderr', 2, /--version/],
]

for (const [words, to, code, text] of cases)
  test(`command line: ${words === '' ? 'nothing' : words}`, () => {
    const said = answerTo(words === '' ? [] : words.split(' '), '1.2.3')
    if (to === null) return assert.equal(said, null)
    assert.deepEqual([said?.to, said?.code], [to, code])
    assert.match(said?.text ?? '', text)
    assert.ok(!said?.text.includes(SECRET))
  })
