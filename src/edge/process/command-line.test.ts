import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runCommand } from './command-line.ts'

const SECRET = 'sk-canary-0123456789'

const cases: readonly (readonly [words: string, to: 'stdout' | 'stderr' | null, code: number, text: RegExp])[] = [
  ['', null, 0, /./],
  ['start', null, 0, /./],
  ['--version', 'stdout', 0, /^1\.2\.3\n$/],
  ['--help', 'stdout', 0, /PORT=4000/],
  ['-h', 'stdout', 0, /headgate\.yaml/],
  ['start --help', 'stdout', 0, /headgate --version/],
  ['--port 4000', 'stderr', 2, /Unknown option --port\. Set the environment variable instead: PORT=… headgate\n$/],
  ['--port=4000', 'stderr', 2, /Unknown option --port\. Set the environment variable instead: PORT=… headgate\n$/],
  ['start --prot 4000', 'stderr', 2, /option --prot\. Set the environment variable instead: PORT=…/],
  ['--circuit-timeout 5000', 'stderr', 2, /CIRCUIT_TIMEOUT=…/],
  ['--circuit_timeout', 'stderr', 2, /CIRCUIT_TIMEOUT=…/],
  [`--openai-api-key=${SECRET}`, 'stderr', 2, /Unknown option --openai-api-key\. Run headgate --help\.\n$/],
  [SECRET, 'stderr', 2, /Unknown argument\. Run headgate --help\.\n$/],
  ['--version now', 'stderr', 2, /--version/],
]

for (const [words, to, code, text] of cases)
  test(`command line: ${words === '' ? 'no arguments' : words}`, () => {
    const output = runCommand(words === '' ? [] : words.split(' '), '1.2.3')
    if (to === null) return assert.equal(output, null)
    assert.deepEqual([output?.to, output?.code], [to, code])
    assert.match(output?.text ?? '', text)
    assert.ok(!output?.text.includes(SECRET))
  })
