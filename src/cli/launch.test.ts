import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type LaunchCommand, readCommand } from './launch.ts'

const SECRET = 'sk-canary-0123456789'

const cases: readonly (readonly [words: string, command: LaunchCommand | RegExp])[] = [
  ['start', { kind: 'start', env: {} }],
  ['start --port 4000', { kind: 'start', env: { PORT: '4000' } }],
  ['--port=4000 --host ::1', { kind: 'start', env: { PORT: '4000', HOST: '::1' } }],
  ['start --config a=b.yaml --workers 2', { kind: 'start', env: { HEADGATE_CONFIG: 'a=b.yaml', WORKERS: '2' } }],
  ['--version', { kind: 'version' }],
  ['--help', { kind: 'verb' }],
  ['start -h', { kind: 'verb' }],
  ['keys list', { kind: 'verb' }],
  ['--json status', { kind: 'verb' }],
  [SECRET, { kind: 'verb' }],
  ['--url http://127.0.0.1:1 status', { kind: 'verb' }],
  ['--prot 4000', /^Unknown option --prot\. Did you mean --port\?$/],
  ['start --port', /^--port needs a value: headgate start --port <port>$/],
  ['start --port --host x', /^--port needs a value/],
  ['start --port=', /^--port needs a value/],
  ['start --prot 4000', /^Unknown option --prot\. Did you mean --port\?$/],
  ['--circuit-timeout=5000', /CIRCUIT_TIMEOUT=… headgate$/],
  ['start --circuit_timeout 5000', /CIRCUIT_TIMEOUT=… headgate$/],
  [`--openai-api-key=${SECRET}`, /^Unknown option --openai-api-key\. Run headgate start --help\.$/],
  [`start ${SECRET}`, /^Unknown argument of start\. Run headgate start --help\.$/],
]

for (const [words, expected] of cases)
  test(`arguments: ${words}`, async () => {
    const command = await readCommand(words.split(' '))
    if (!(expected instanceof RegExp)) return assert.deepEqual(command, expected)
    assert.equal(command.kind, 'refuse')
    assert.match(command.kind === 'refuse' ? command.message : '', expected)
    assert.ok(!JSON.stringify(command).includes(SECRET))
  })
